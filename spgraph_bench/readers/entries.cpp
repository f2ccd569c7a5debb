// What readers do with every one of many entries: see compiled.py.
//
// Entries of a Matrix Market body are read, one in each line, by the strictest reading of the format. Whatever is
// not plainly an entry in its bounds is left to the readers in Python, which know what to call it.

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <system_error>
#include <type_traits>

#if !defined(__cpp_lib_to_chars) || (defined(_GLIBCXX_RELEASE) && _GLIBCXX_RELEASE < 12)
#error "std::from_chars for double is missing, or slower than scipy's parser"
#endif

namespace {

bool is_digit(char c) { return static_cast<unsigned char>(c - '0') < 10; }

const char* skip_blanks(const char* at)
{
    while (*at == ' ' || *at == '\t') ++at;
    return at;
}

// An index from `first` on, of `count`, less `first`. What is behind it, here as below, or null where there is none.
const char* read_index(const char* at, std::int64_t count, std::uint64_t first, std::int32_t* out)
{
    const char* const begin = at;
    std::uint64_t number = 0;
    for (; is_digit(*at); ++at) number = number * 10 + static_cast<std::uint64_t>(*at - '0');
    if (at - begin > 18 || number - first >= static_cast<std::uint64_t>(count)) return nullptr;
    *out = static_cast<std::int32_t>(number - first);
    return at;
}

// A finite number (for others x - x is not 0) without a plus sign, which from_chars does not take.
template <class Value>
const char* read_value(const char* at, const char* end, Value* out)
{
    if (!is_digit(*at) && *at != '-' && *at != '.') return nullptr;
    const auto [after, error] = std::from_chars(at, end, *out);
    return error == std::errc() && *out - *out == 0 ? after : nullptr;
}

struct nothing {};

template <class Value>
bool read_entries(const char* at, const char* end, std::int64_t entries, std::int64_t rows, std::int64_t cols,
                  std::uint64_t first, std::int32_t* row, std::int32_t* col, Value* values)
{
    for (std::int64_t k = 0; k < entries; ++k) {
        at = read_index(skip_blanks(at), rows, first, &row[k]);
        if (!at || (*at != ' ' && *at != '\t')) return false;
        at = read_index(skip_blanks(at), cols, first, &col[k]);
        if (!at) return false;
        if constexpr (!std::is_same_v<Value, nothing>) {
            if (*at != ' ' && *at != '\t') return false;
            at = read_value(skip_blanks(at), end, &values[k]);
            if (!at) return false;
        }
        while (*at == ' ' || *at == '\t' || *at == '\r') ++at;
        if (*at++ != '\n') return false;
    }
    return at == end;
}

template <bool kWeighted, bool kMirrored>
void move_entries(const std::int32_t* row, const std::int32_t* col, const double* values, std::int64_t entries,
                  bool negate, std::int32_t* next, std::int32_t* to_col, double* to_values)
{
    for (std::int64_t k = 0; k < entries; ++k) {
        if (kMirrored && row[k] == col[k]) continue;
        const std::int32_t at = next[row[k]]++;
        to_col[at] = col[k];
        if (kWeighted) to_values[at] = negate ? -values[k] : values[k];
    }
}

}  // namespace

#define SPG_EXPORT extern "C" __attribute__((visibility("default")))

// Line feeds in [at, at + size).
SPG_EXPORT std::int64_t spg_lines(const char* at, std::int64_t size)
{
    std::int64_t lines = 0;
    while (size) {
        const int part = size < 255 * 16 ? static_cast<int>(size) : 255 * 16;
        int found = 0;  // 32 bits, in a loop of its own: vectorised four times as wide as 64
        for (int i = 0; i < part; ++i) found += at[i] == '\n';
        lines += found;
        at += part;
        size -= part;
    }
    return lines;
}

// Reads `entries` lines, which fill [at, at + size) and end in a line feed each; indices count from `first`. `field`:
// 'r'eal (values are double), 'i'nteger (int64) or 'p'attern (none). Whether they are all entries.
SPG_EXPORT int spg_entries(const char* at, std::int64_t size, std::int64_t entries, std::int64_t rows,
                           std::int64_t cols, int first, std::int32_t* row, std::int32_t* col, void* values, char field)
{
    const auto read = [&](auto* to) {
        return read_entries(at, at + size, entries, rows, cols, static_cast<std::uint64_t>(first), row, col, to);
    };
    if (field == 'r') return read(static_cast<double*>(values));
    if (field == 'i') return read(static_cast<std::int64_t*>(values));
    return read(static_cast<nothing*>(values));
}

// How many of the entries are in each row; `mirrored`: without those on the diagonal.
SPG_EXPORT void spg_count(const std::int32_t* row, const std::int32_t* col, std::int64_t entries, int mirrored,
                          std::int32_t* counts)
{
    if (mirrored) {
        for (std::int64_t k = 0; k < entries; ++k) counts[row[k]] += row[k] != col[k];
    } else {
        for (std::int64_t k = 0; k < entries; ++k) ++counts[row[k]];
    }
}

// Moves the entries that spg_count counts to their rows: the next one of row i to next[i], which is raised.
SPG_EXPORT void spg_move(const std::int32_t* row, const std::int32_t* col, const double* values, std::int64_t entries,
                         int mirrored, int negate, std::int32_t* next, std::int32_t* to_col, double* to_values)
{
    const auto move = values ? (mirrored ? move_entries<true, true> : move_entries<true, false>)
                             : (mirrored ? move_entries<false, true> : move_entries<false, false>);
    move(row, col, values, entries, negate, next, to_col, to_values);
}

// ---- mapped files that are cut while they are read --------------------------------------------------------------
//
// A page behind the new end of the file gives SIGBUS, which would end the process. The rest of the mapping is
// replaced by zeros, and the reader learns of it afterwards.

namespace {

constexpr int kGuards = 64;

struct Guard {
    char* begin;  // null: free
    std::size_t size;
    volatile sig_atomic_t cut;
};

Guard guards[kGuards];
struct sigaction before_us;
bool installed = false;

void on_bus_error(int number, siginfo_t* info, void*)
{
    char* const at = static_cast<char*>(info->si_addr);
    for (Guard& guard : guards) {
        if (!guard.begin || at < guard.begin || at >= guard.begin + guard.size) continue;
        const std::uintptr_t page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
        char* const first = reinterpret_cast<char*>(reinterpret_cast<std::uintptr_t>(at) / page * page);
        const std::size_t rest = static_cast<std::size_t>(guard.begin + guard.size - first);
        guard.cut = 1;
        if (mmap(first, rest, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED) return;
    }
    sigaction(number, &before_us, nullptr);  // another file: the access is tried again, and ends as it would have
}

}  // namespace

// Guards a mapping; the guard's number, or -1 where there is none left. Not to be called by two threads at a time.
SPG_EXPORT int spg_guard(char* begin, std::int64_t size)
{
    if (!installed) {
        struct sigaction ours = {};
        ours.sa_sigaction = on_bus_error;
        ours.sa_flags = SA_SIGINFO;
        sigemptyset(&ours.sa_mask);
        if (sigaction(SIGBUS, &ours, &before_us) != 0) return -1;
        installed = true;
    }
    for (int k = 0; k < kGuards; ++k) {
        if (guards[k].begin) continue;
        guards[k].size = static_cast<std::size_t>(size);
        guards[k].cut = 0;
        guards[k].begin = begin;
        return k;
    }
    return -1;
}

// Whether the guarded file was found cut.
SPG_EXPORT int spg_cut(int guard) { return guards[guard].cut; }

SPG_EXPORT void spg_unguard(int guard) { guards[guard].begin = nullptr; }
