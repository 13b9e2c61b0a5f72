#!/usr/bin/env python3
"""Records steps of PyTorch's optimizers for pytorch_steps_test.

    pip install torch==2.11.0 --index-url https://download.pytorch.org/whl/cpu
    python tests/optim/algorithms/record_steps.py tests/optim/data/pytorch_steps.json

Numbers are written as the 8 or 16 hexadecimal digits of their bits, complex ones as two. Of each
dtype there are the parameter at first and the gradients of all steps; "runs" has the parameter
after every step of an optimizer with some options, and its state after the last.
"""
import json
import struct
import sys

import torch

STEPS = 6
SHAPE = (2, 3)
DTYPES = {"float32": torch.float32, "float64": torch.float64, "complex128": torch.complex128}

# Options by the names that PyTorch gives them.
RUNS = {
    "Adadelta": [
        {},
        {"lr": 0.5, "rho": 0.95, "eps": 1e-3},
        {"lr": 10.0, "weight_decay": 0.1},
        {"lr": 10.0, "weight_decay": 0.1, "maximize": True},
        {"rho": 0.0},
        {"rho": 1.0, "lr": 0.01},
    ],
    "Adamax": [
        {},
        {"lr": 0.05, "betas": (0.8, 0.99), "eps": 1e-3},
        {"lr": 0.1, "weight_decay": 0.1},
        {"lr": 0.1, "weight_decay": 0.1, "maximize": True},
        {"betas": (0.0, 0.0)},
    ],
    "NAdam": [
        {},
        {"lr": 0.05, "betas": (0.8, 0.99), "eps": 1e-3, "momentum_decay": 0.5},
        {"lr": 0.1, "weight_decay": 0.1},
        {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True},
        {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True},
        {"lr": 0.1, "weight_decay": 0.1, "maximize": True, "momentum_decay": 0.0},
    ],
    "Rprop": [
        {},
        {"lr": 0.1, "etas": (0.3, 1.5)},
        {"step_sizes": (4e-3, 0.015)},
        {"lr": 0.1, "maximize": True},
    ],
}


def bits(tensor):
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    form = ">d" if tensor.dtype == torch.float64 else ">f"
    return "".join(struct.pack(form, value).hex() for value in tensor.flatten().tolist())


def inputs(dtype):
    """A parameter, and gradients of several sizes: some turn round, one is small, one is 0."""
    generator = torch.Generator().manual_seed(7)
    draw = lambda: torch.randn(SHAPE, generator=generator, dtype=dtype)
    start = draw()
    gradients = [draw() for _ in range(STEPS)]
    for i, gradient in enumerate(gradients):
        gradient[0, 0] = 0.5 * (-1) ** i   # always turns round
        gradient[0, 1] = 0.25 * (i + 1)    # never does
        gradient[1, 1] *= 1e-5
        gradient[1, 2] = 0
    return start, gradients


def run(name, dtype, options):
    start, gradients = inputs(DTYPES[dtype])
    parameter = start.clone().requires_grad_()
    optimizer = getattr(torch.optim, name)([parameter], **options)
    row = {"optimizer": name, "dtype": dtype, "options": options, "parameter": []}
    for gradient in gradients:
        parameter.grad = gradient.clone()
        optimizer.step()
        row["parameter"].append(bits(parameter.detach()))
    state = optimizer.state[parameter]
    row["state"] = {k: bits(v) for k, v in state.items() if v.dim() > 0}
    row["numbers"] = {k: v.item() for k, v in state.items() if v.dim() == 0}
    return row


def main(path):
    document = {"torch": torch.__version__.split("+")[0], "shape": SHAPE}
    inputs_of, runs = {}, []
    for dtype in DTYPES:
        # NAdam's mu_product has the default dtype.
        torch.set_default_dtype(torch.float32 if dtype == "float32" else torch.float64)
        start, gradients = inputs(DTYPES[dtype])
        inputs_of[dtype] = {"start": bits(start), "gradients": [bits(g) for g in gradients]}
        for name, all_options in RUNS.items():
            for i, options in enumerate(all_options):
                if dtype != "complex128" or i == 2:  # one of each will do
                    runs.append(json.dumps(run(name, dtype, options), separators=(",", ":")))
    with open(path, "w") as out:
        out.write(json.dumps(document)[:-1])
        out.write(',\n"inputs": ' + json.dumps(inputs_of, separators=(",", ":")))
        out.write(',\n"runs": [\n' + ",\n".join(runs) + "]}\n")


if __name__ == "__main__":
    main(sys.argv[1])
