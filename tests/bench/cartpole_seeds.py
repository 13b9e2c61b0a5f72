#!/usr/bin/env python3
"""How many episodes CartPole takes until it is solved: the median of several seeds.

    python3 tests/bench/cartpole_seeds.py --seeds 9 --observers 1 2

Runs `cartpole --local`, whose episodes are those of a run over ranks with the same seed. Exits with 1 when
a seed does not solve the task within --episodes.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5, help="seeds 1 to this one (default: 5)")
    parser.add_argument(
        "--observers", type=int, nargs="+", default=[1, 2], help="how many there are (default: 1 2)"
    )
    parser.add_argument(
        "--episodes", type=int, default=3000, help="where a run is given up (default: 3000)"
    )
    parser.add_argument(
        "--build", type=Path, default=REPOSITORY / "build" / "release", help="build folder"
    )
    return parser.parse_args()


def run(program, seed, observers, episodes):
    """What one run came to: the object that it writes as JSON."""
    with tempfile.TemporaryDirectory(prefix="troupe-seeds-") as folder:
        output = Path(folder) / "run.json"
        command = [
            program, "--local", "--seed", seed, "--observers", observers, "--episodes", episodes,
            "--log-interval", 1000, "--json", output,
        ]  # fmt: skip
        subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)
        return json.loads(output.read_text())


def main():
    asked = arguments()
    program = asked.build / "apps" / "cartpole"
    if not program.exists():
        sys.exit(f"{program} is missing: run `make build` first")
    all_solved = True
    for observers in asked.observers:
        runs = [run(program, seed, observers, asked.episodes) for seed in range(1, asked.seeds + 1)]
        for one in runs:
            how = "solved" if one["solved"] else "NOT SOLVED"
            print(
                f"observers {observers}, seed {one['seed']}: {how} after {one['episodes']} episodes,"
                f" average reward {one['running_reward']:.1f}",
                flush=True,
            )
            all_solved = all_solved and one["solved"]
        print(
            f"observers {observers}, {len(runs)} seeds: median of"
            f" {statistics.median(one['episodes'] for one in runs):g} episodes, average reward"
            f" {statistics.median(one['running_reward'] for one in runs):.1f}",
            flush=True,
        )
    return 0 if all_solved else 1


if __name__ == "__main__":
    sys.exit(main())
