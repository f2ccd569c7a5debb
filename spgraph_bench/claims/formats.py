"""Claims about sparse formats: bytes, padding, irregular rows, conversion."""

from __future__ import annotations

import math

from spgraph_bench.claims.base import Evidence, Figure, NotMeasuredError, Run, Verdict, claim, factor, over

__all__: list[str] = []

_UNEVEN, _EVEN = "rmat:scale=18", "poisson2d:n=2048,values=random"
_CSR = ("csr-scalar", "csr-vector")
"""The CSR kernels that textbooks have."""
_BALANCED = ("csr-adaptive", "csr-segmented", "csr-merge")
"""CSR kernels that cut the entries into equal parts."""


def _spmv(variants: tuple[str, ...], recipe: str, small: str, *, force_format: bool = False) -> Run:
    return Run("spmv", variants, recipe, small, dtype="float32", force_format=force_format)


@claim(
    "coo-irregular",
    text="COO copes with irregular rows: each thread has an entry, however long the rows are.",
    taught="chapters on sparse matrices; Bell and Garland, SC 2009",
    runs=[
        _spmv(("coo-*", "csr-scalar"), _UNEVEN, "rmat:scale=10"),
        _spmv(("coo-segmented", "csr-scalar"), _EVEN, "poisson2d:n=64"),
    ],
)
def coo_irregular(e: Evidence) -> Verdict:
    """Time per nonzero on uneven rows over that on even ones: of COO, and of a thread per row."""

    def worse(variant: str) -> Figure:
        uneven, even = (e.per_nonzero(run, e.time(run, variant), 1e6) for run in (0, 1))
        return over(f"{variant}: time per nonzero, uneven rows over even ones", uneven, even)

    coo, scalar = worse("coo-segmented"), worse("csr-scalar")
    figures = (coo, scalar)
    if coo.most <= 3 and scalar.least >= 2 * coo.most:
        why = (
            f"uneven rows cost COO {factor(coo.value)} times the time per nonzero, a thread per row "
            f"{factor(scalar.value)} times"
        )
        return Verdict("holds", why, figures)
    if coo.value < scalar.value:
        return Verdict("holds if", "compared with a thread per row; COO, too, is slower on uneven rows", figures)
    return Verdict("does not", "uneven rows cost COO as much as a thread per row", figures)


@claim(
    "hyb-csr",
    text="HYB is 1.5 to 3 times as fast as CSR on matrices with a few long rows.",
    taught="chapters on sparse matrices; Bell and Garland, SC 2009",
    runs=[_spmv(("hyb", *_CSR, *_BALANCED), _UNEVEN, "rmat:scale=10")],
)
def hyb_csr(e: Evidence) -> Verdict:
    """Against the CSR kernels of the textbooks, and against CSR cut into equal parts."""
    hyb = e.time(0, "hyb")
    plain_name, plain = e.fastest(0, *_CSR)
    best_name, best = e.fastest(0, *_BALANCED)
    against = over(f"{plain_name} over hyb", plain, hyb)
    tuned = over(f"{best_name} over hyb", best, hyb)
    figures = (against, tuned)
    if tuned.least >= 1.5:
        return Verdict("holds", f"{factor(tuned.value)} times as fast as CSR cut into equal parts, too", figures)
    if against.least >= 1.5:
        why = (
            f"CSR is a thread or a warp per row ({factor(against.value)} times); against CSR cut into equal parts it "
            f"is {factor(tuned.value)} times as fast"
        )
        return Verdict("holds if", why, figures)
    return Verdict("does not", f"it is {factor(against.value)} times as fast as {plain_name}", figures)


@claim(
    "jds-leanest",
    text="JDS takes the fewest bytes of the general formats, since it pads nothing.",
    taught="chapters on sparse matrices, where JDS follows ELL and HYB",
    runs=[
        _spmv(("coo-segmented", "csr-scalar", "ell", "hyb", "jds", "sell"), _UNEVEN, "rmat:scale=10"),
        _spmv(("coo-segmented", "csr-scalar", "ell", "hyb", "jds", "sell"), _EVEN, "poisson2d:n=64"),
    ],
    counted=True,
)
def jds_leanest(e: Evidence) -> Verdict:
    """Stored bytes of the six formats, on uneven and on even rows."""
    figures: list[Figure] = []
    beats_padded = beats_all = True
    for run in (0, 1):
        jds = e.stored(run, "jds")
        figures.append(jds)
        for variant in ("csr-scalar", "ell", "hyb", "sell", "coo-segmented"):
            try:
                other = e.stored(run, variant)
            except NotMeasuredError:  # refused for its padding
                continue
            figures.append(other)
            beats_all &= jds.value <= other.value
            if variant in ("ell", "hyb", "sell") and run == 0:
                beats_padded &= jds.value <= other.value
    shown = tuple(sorted(figures[: len(figures)], key=lambda f: (f.what.rpartition(" ")[2], f.value)))
    if beats_all:
        return Verdict("holds", "no format takes fewer bytes on either matrix", shown)
    if beats_padded:
        why = (
            "rows are uneven and the others pad: there it takes fewer bytes than ELL, HYB and SELL; CSR needs one "
            "pointer for each row where JDS needs a permutation and slot starts, and is as small or smaller"
        )
        return Verdict("holds if", why, shown)
    return Verdict("does not", "a padded format takes fewer bytes on uneven rows", shown)


@claim(
    "ell-padding",
    text="One long row makes ELL useless: every row is padded to it.",
    taught="chapters on sparse matrices",
    runs=[
        _spmv(("ell", "csr-scalar"), "arrow:n=1000", "arrow:n=1000", force_format=True),
        _spmv(("ell", "csr-scalar"), "poisson2d:n=64", "poisson2d:n=64"),
    ],
    counted=True,
)
def ell_padding(e: Evidence) -> Verdict:
    """Bytes of ELL over those of CSR, with one full row and without."""
    long, even = (
        over(f"ELL over CSR, bytes, {what}", e.stored(run, "ell"), e.stored(run, "csr-scalar"))
        for run, what in ((0, "one full row"), (1, "even rows"))
    )
    if long.value >= 10 and even.value <= 1.25:
        why = (
            f"with one full row it takes {factor(long.value, 3)} times the bytes of CSR, on even rows "
            f"{factor(even.value)} times"
        )
        return Verdict("holds", why, (long, even))
    if long.value > even.value:
        return Verdict("holds if", "the row is long enough against the others", (long, even))
    return Verdict("does not", "padding hardly shows", (long, even))


@claim(
    "conversion",
    text="Converting to a better format pays after some products only.",
    taught="chapters on sparse matrices; guides of solver libraries",
    runs=[_spmv(("ell", "sell", "dia", "hyb", "jds", "csr-*"), _EVEN, "poisson2d:n=64")],
)
def conversion(e: Evidence) -> Verdict:
    """After how many products the setup of a format that is faster than CSR is paid back."""
    figures: list[Figure] = []
    for record in e.records(0, "ell", "sell", "dia", "hyb", "jds"):
        try:
            runs = e.pays_after(0, record.variant)
        except NotMeasuredError:
            continue
        figures.append(Figure(f"products until {record.variant} pays", runs))
    if not figures:
        raise NotMeasuredError("no format was timed beside CSR")
    paying = [f for f in figures if math.isfinite(f.value) and f.value >= 1]
    if paying:
        soonest = min(paying, key=lambda f: f.value)
        name = soonest.what.split()[2]
        why = f"there are more than {soonest.value:,.0f} products with one matrix ({name} is the first to pay here)"
        return Verdict("holds if", why, tuple(figures))
    if any(f.value < 1 for f in figures):
        return Verdict("does not", "a format is faster from the first product on", tuple(figures))
    return Verdict("does not", "no format is faster than the best CSR kernel here, so none ever pays", tuple(figures))
