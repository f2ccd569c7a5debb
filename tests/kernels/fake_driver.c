/* A libcuda.so.1 that executes nothing and prints what it was called with, for tests without a GPU. Structures are
   laid out as in cuda.h (CUDA 12.4 and later). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef void* handle;
typedef struct {
    int type, reserved[3];
    unsigned long long condition;
    int kind;
    unsigned size;
    handle* graphs;
    handle context;
} node;
static handle bodies[1] = {(handle)0x88};

static int unknown(void) { return 999; }
int cuGetProcAddress_v2(const char* name, void** out, int version, unsigned long long flags, int* status)
{
    char own[200];
    snprintf(own, sizeof own, "fake_%s", name);
    *out = strcmp(name, "cuGetProcAddress") ? dlsym(dlopen("libcuda.so.1", RTLD_NOW), own) : (void*)cuGetProcAddress_v2;
    if (!*out) *out = (void*)unknown;
    if (status) *status = 0;
    return 0;
}
int fake_cuInit(unsigned flags) { return 0; }
int fake_cuDriverGetVersion(int* v)
{
    *v = DRIVER;
    return 0;
}
int fake_cuModuleLoadData(handle* m, const char* image)
{
    printf("load %.4s\n", image);
    *m = (handle)0x11;
    return 0;
}
int fake_cuModuleGetFunction(handle* f, handle m, const char* name)
{
    printf("function %s\n", name);
    *f = (handle)0x22;
    return 0;
}
int fake_cuFuncSetAttribute(handle f, int attribute, int value)
{
    printf("attribute %d of %p: %d\n", attribute, f, value);
    return 0;
}
int fake_cuOccupancyMaxActiveBlocksPerMultiprocessor(int* b, handle f, int threads, size_t shared)
{
    *b = threads + (int)shared;
    return 0;
}
int fake_cuLaunchCooperativeKernel(handle f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                   unsigned bz, unsigned shared, handle stream, void** p)
{
    printf("cooperative %u,%u,%u %u,%u,%u %u %p: %d %llx %p %g\n", gx, gy, gz, bx, by, bz, shared, stream, *(int*)p[0],
           *(unsigned long long*)p[1], *(void**)p[2], *(double*)p[3]);
    return gx > 1000 ? 720 : 0;
}
int fake_cuStreamBeginCapture(handle s, int mode)
{
    printf("capture on %p\n", s);
    return 0;
}
int fake_cuStreamBeginCaptureToGraph(handle s, handle g, void* d, void* e, size_t n, int mode)
{
    printf("capture into %p\n", g);
    return 0;
}
int fake_cuStreamEndCapture(handle s, handle* g)
{
    *g = (handle)0x33;
    return 0;
}
int fake_cuGraphInstantiateWithFlags(handle* e, handle g, unsigned long long f)
{
    printf("instantiate %p\n", g);
    *e = (handle)0x44;
    return 0;
}
int fake_cuGraphInstantiate(handle* e, handle g, unsigned long long f)
{
    return fake_cuGraphInstantiateWithFlags(e, g, f);
}
int fake_cuGraphUpload(handle e, handle s) { return 0; }
int fake_cuGraphLaunch(handle e, handle s)
{
    printf("launch %p on %p\n", e, s);
    return 0;
}
int fake_cuGraphCreate(handle* g, unsigned flags)
{
    *g = (handle)0x55;
    return 0;
}
int fake_cuCtxGetCurrent(handle* c)
{
    *c = (handle)0x66;
    return 0;
}
int fake_cuGraphConditionalHandleCreate(unsigned long long* h, handle g, handle c, unsigned first, unsigned flags)
{
    printf("condition of %p in %p, first %u, flags %u\n", g, c, first, flags);
    *h = 0x77;
    return 0;
}
int fake_cuGraphAddNode(handle* n, handle g, void* d, void* e, size_t count, node* p)
{
    printf("node %d: condition %llx, kind %d, size %u, context %p\n", p->type, p->condition, p->kind, p->size,
           p->context);
    p->graphs = bodies;
    *n = (handle)0x99;
    return 0;
}
