#!/usr/bin/env python3
"""Records CartPole-v1 trajectories of PyPI's gymnasium for cartpole_environment_test.

    pip install gymnasium
    python tests/apps/cartpole/record_cartpole.py tests/apps/data/cartpole_trajectories.json

Doubles are written as the 16 hexadecimal digits of their bits, so that the comparison is exact.
Each episode has its reset seed, its initial state, its actions and the state after every action;
"resets" has the initial states of successive resets of one environment.
"""
import itertools
import json
import struct
import sys

import gymnasium
import numpy as np


def bits(state):
    return "".join(struct.pack(">d", value).hex() for value in state)


def balance(x_gain, v_gain):
    """A linear controller; with good gains it holds the pole for the whole episode."""
    return lambda s: int(s[2] + 0.5 * s[3] + x_gain * s[0] + v_gain * s[1] > 0)


def random_policy(seed):
    generator = np.random.default_rng(seed)
    return lambda s: int(generator.integers(2))


def alternating():
    turn = itertools.count()
    return lambda s: next(turn) % 2


def policies():
    for seed in range(1, 21):
        yield "random", seed, random_policy(1000 + seed)
    for seed in (0, 2**31, 2**32 - 1):
        yield "left", seed, lambda s: 0
    for seed in (1, 2**32, 2**64 - 1):
        yield "right", seed, lambda s: 1
    for seed in (2**40 + 7, 12345678901234567890):
        yield "alternating", seed, alternating()
    for seed, lean in ((3, 0.05), (4, -0.05), (5, 0.04)):
        yield "leaves the track", seed, lambda s, lean=lean: int(s[2] - lean + 0.5 * s[3] > 0)
    for seed in (6, 7):
        yield "good", seed, balance(0.1, 0.2)


def episode(name, seed, policy):
    env = gymnasium.make("CartPole-v1")
    seen, _ = env.reset(seed=seed)
    row = {"policy": name, "seed": seed, "initial": bits(env.unwrapped.state), "actions": "", "states": []}
    while True:
        state = env.unwrapped.state
        assert (seen == state.astype(np.float32)).all()
        action = policy(state)
        seen, reward, terminated, truncated, _ = env.step(action)
        assert reward == 1.0
        row["actions"] += str(action)
        row["states"].append(bits(env.unwrapped.state))
        if terminated or truncated:
            return row | {"terminated": terminated, "truncated": truncated}


def resets(seed, count):
    env = gymnasium.make("CartPole-v1").unwrapped
    env.reset(seed=seed)
    states = [bits(env.state)]
    for _ in range(count - 1):
        env.reset()
        states.append(bits(env.state))
    return {"seed": seed, "states": states}


def main(path):
    document = {"gymnasium": gymnasium.__version__, "numpy": np.__version__}
    episodes = [json.dumps(episode(*p), separators=(",", ":")) for p in policies()]
    starts = [json.dumps(resets(seed, 5), separators=(",", ":")) for seed in (0, 1, 2**40 + 7)]
    with open(path, "w") as out:
        out.write(json.dumps(document)[:-1])
        out.write(',\n"resets": [\n' + ",\n".join(starts) + "],\n")
        out.write('"episodes": [\n' + ",\n".join(episodes) + "]}\n")


if __name__ == "__main__":
    main(sys.argv[1])
