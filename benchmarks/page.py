"""The report in headless Chromium: `python benchmarks/page.py [--candidates 10000] [--store FILE] [--pictures FOLDER]`.

Seconds until the page has drawn itself, the median of five loads, and the longest frame while it scrolls from its top
to its end, at two widths, light and dark. What the browser complains of ends it with exit code 1. Without a store one
is made: a search of so many candidates of 3 kB on two islands, of which 70 % are right.
"""

import argparse
import math
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

import yaml

from archive.store import Store
from evokernel.records.candidate import Usage
from evokernel.report.html import report_page, write_page

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support.browser import CHROMIUM, Browser
from tests.support.stores import StoreBuilder

WIDTHS = (1400, 390)
LOADS = 5
SCROLL = """new Promise((done) => {
    const end = document.documentElement.scrollHeight - innerHeight, began = performance.now();
    let last = began, longest = 0, frame = 0;
    const step = (now) => {
        longest = Math.max(longest, now - last);
        last = now;
        frame += 1;
        scrollTo(0, end * frame / 120);
        if (frame < 120) requestAnimationFrame(step); else done(longest);
    };
    requestAnimationFrame(step);
})"""


def fill(path: Path, count: int) -> None:
    """Fill a store with a search of so many candidates."""
    axes = {"vector_bits": [128.0, 256.0], "spills": [1.0], "code_bytes": [1024.0]}
    islands = [{"name": name, "niches": {"axes": axes}} for name in ("builders", "tuners")]
    rng, line = random.Random(3), "    total += a[i * K + k] * b[k * N + j];  // {}\n"
    with StoreBuilder(path) as builder:
        builder.store.set_meta("config", yaml.safe_dump({"islands": islands}, sort_keys=False))
        family = [(builder.seed(speedup=0.2), 0.2)]
        for number in range(count):
            parent, speed = max(rng.sample(family, min(4, len(family))), key=lambda each: each[1])
            right, speed = rng.random() < 0.7, speed * math.exp(rng.gauss(0.0003, 0.01))
            body = "".join(line.format(rng.getrandbits(64)) for _ in range(45))
            name = builder.add(
                f"// candidate {number}\nvoid run() {{\n{body}}}\n",
                speedup=speed if right else None,
                parents=(parent,),
                operator=rng.choice(("mutate", "rewrite", "tune")),
                island=rng.choice(("builders", "tuners")),
                usage=Usage(model="small", prompt_tokens=100, completion_tokens=50, cost_usd=0.01),
                feedback="" if right else "element 3 differs",
            )
            family = [*family[-200:], (name, speed)] if right else family
        best = max(family, key=lambda each: each[1])
        builder.final(best[0], speedup=best[1], panel={"torch": best[1], "compiled": best[1] * 1.2})
        builder.store.session_end("enough", seconds=4000.0)


def measure(browser: Browser, page: Path, pictures: Path | None) -> None:
    """Print a row for each width and scheme."""
    print("| width | scheme | loads in s (median of 5) | longest frame of a scroll in ms |")
    print("|---|---|---|---|")
    for width in WIDTHS:
        for dark in (False, True):
            loads = []
            for _ in range(LOADS):
                began = time.perf_counter()
                browser.show(page, width=width, dark=dark)
                loads.append(time.perf_counter() - began)
            scheme = "dark" if dark else "light"
            longest = float(browser.run(SCROLL))
            print(f"| {width} | {scheme} | {statistics.median(loads):.2f} | {longest:.0f} |", flush=True)
            if pictures is not None:
                browser.run("scrollTo(0, 0)")
                browser.picture(pictures / f"{width}_{scheme}.png")


def main() -> int:
    """Measure, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=int, default=10_000)
    parser.add_argument("--store", type=Path, help="a store of yours, instead of one made here")
    parser.add_argument("--pictures", type=Path, help="folder for a picture of each page")
    given = parser.parse_args()
    if CHROMIUM is None:
        parser.error("there is no Chromium here (Debian: apt-get install chromium)")
    if given.pictures is not None:
        given.pictures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        store, page = given.store or Path(folder) / "run.db", Path(folder) / "run.html"
        if given.store is None:
            fill(store, given.candidates)
        with Store.open(store, write=False) as opened:
            write_page(report_page(opened, version="1"), page)
        print(f"{page.stat().st_size / 1e6:.1f} MB\n")
        with Browser(Path(folder) / "profile") as browser:
            measure(browser, page, given.pictures)
            for fault in browser.faults:
                print(fault)
            return 1 if browser.faults else 0


if __name__ == "__main__":
    sys.exit(main())
