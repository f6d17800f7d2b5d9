"""
All benchmarks of reviews, as one table and one file.

    python -m benchmarks [--json FILE] [--quick]

The engine alone, the server over loopback TLS beside its floor, and how the cost grows. What large
clusters cost takes a real API server: `benchmarks.cluster_store` and `benchmarks.gpu_round`.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict

from benchmarks import engine, growth, mutate
from benchmarks.table import describe_machine, show, write_json


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=(__doc__ or "").strip().partition("\n\n")[0]
    )
    parser.add_argument("--json", metavar="FILE", help="write the results there as well")
    parser.add_argument("--quick", action="store_true", help="a tenth of the reviews")
    args = parser.parse_args()
    part = 10 if args.quick else 1
    alone = engine.measure_all(2000 // part)
    show(engine.rows(alone))
    loads, rates, start_s = mutate.measure(2000 // part, 3, max(2, mutate.RATE_SECONDS // part))
    show(mutate.load_rows(loads))
    show(mutate.rate_rows(rates))
    print(f"start to ready: {start_s:.2f} s\n")
    grown = growth.measure_all(200 // part)
    show(growth.rows(grown))
    print(describe_machine())
    if args.json:
        results = {
            "engine": [asdict(result) for result in alone],
            "mutate": [asdict(result) for result in loads],
            "rate": [asdict(result) for result in rates],
            "start_s": start_s,
            "growth": [asdict(result) for result in grown],
        }
        write_json(args.json, results)


if __name__ == "__main__":
    main()
