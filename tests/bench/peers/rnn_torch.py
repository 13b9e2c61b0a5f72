"""The language model of apps/rnn over torch.distributed.rpc, as PyTorch's RPC tutorial describes it:
rank 0 has the LSTM and trains, rank 1 has the embedding table and the decoder. Text, batches, sizes
and clipping are those of apps/rnn. Measures tokens a second.

    troupe-run -n 2 python3 rnn_torch.py --row rnn_tokens --text FILE --json FILE
"""

import argparse
import os
import re
import warnings
from collections import Counter

warnings.filterwarnings("ignore")

import torch  # noqa: E402
import torch.distributed.autograd as autograd  # noqa: E402
import torch.distributed.rpc as rpc  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.optim import DistributedOptimizer  # noqa: E402

from timing import now, write  # noqa: E402

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
SERVER = "rank1"


# The text, in the same numbers as apps/rnn/corpus.cpp.


def lines_of_words(text):
    word = re.compile(rb"[a-z0-9\x80-\xff]+(?:'[a-z0-9\x80-\xff]+)*|[^\sa-z0-9\x80-\xff]")
    found = (word.findall(line) for line in text.lower().split(b"\n"))
    return [words + [b"\n"] for words in found if words]


def learnt_text(text, vocabulary):
    """How many words there are, and the numbers of those that are learnt from."""
    lines = [line for i, line in enumerate(lines_of_words(text)) if i % 1000 < 950]
    counts = Counter(word for line in lines for word in line)
    numbers = {word: i + 1 for i, (word, _) in enumerate(counts.most_common(vocabulary - 1))}
    return len(numbers) + 1, torch.tensor([numbers.get(word, 0) for line in lines for word in line])


def batches(text, streams, length):
    """Words and those that follow, again and again; as apps/rnn/batches.cpp."""
    each = len(text) // streams
    streams = text[: each * streams].view(streams, each).t().contiguous()
    while True:
        for first in range(0, each - 1, length):
            end = min(first + length, each - 1)
            yield streams[first:end], streams[first + 1 : end + 1].reshape(-1), first == 0


# The model, as the tutorial divides it.


class EmbeddingTable(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.table = nn.Embedding(words, width, sparse=True)
        self.table.weight.data.uniform_(-0.1, 0.1)

    def forward(self, words):
        return self.table(words)


class Decoder(nn.Module):
    def __init__(self, words, hidden):
        super().__init__()
        self.linear = nn.Linear(hidden, words)
        self.linear.weight.data.uniform_(-0.1, 0.1)
        self.linear.bias.data.zero_()

    def forward(self, outputs):
        return self.linear(outputs.flatten(0, -2))


def call_method(method, reference, *arguments):
    return method(reference.local_value(), *arguments)


def remote_method(method, reference, *arguments):
    return rpc.rpc_sync(reference.owner(), call_method, args=(method, reference, *arguments))


def parameter_rrefs(module):
    return [rpc.RRef(parameter) for parameter in module.parameters()]


class Model(nn.Module):
    def __init__(self, words, asked):
        super().__init__()
        self.table = rpc.remote(SERVER, EmbeddingTable, args=(words, asked.embedding))
        self.lstm = nn.LSTM(asked.embedding, asked.hidden, asked.layers)
        self.decoder = rpc.remote(SERVER, Decoder, args=(words, asked.hidden))

    def forward(self, words, state):
        rows = remote_method(EmbeddingTable.forward, self.table, words)
        outputs, state = self.lstm(rows, state)
        return remote_method(Decoder.forward, self.decoder, outputs), state

    def parameter_rrefs(self):
        return [
            *remote_method(parameter_rrefs, self.table),
            *parameter_rrefs(self.lstm),
            *remote_method(parameter_rrefs, self.decoder),
        ]


# Clipping by the norm over both nodes, as apps/rnn/clipping.cpp.


def squared_norms(context):
    gradients = autograd.get_gradients(context).values()
    values = (each.coalesce().values() if each.is_sparse else each for each in gradients)
    return sum(torch.linalg.vector_norm(each).item() ** 2 for each in values)


def scale(context, factor):
    with torch.no_grad():
        for gradient in autograd.get_gradients(context).values():
            gradient.mul_(factor)


def clip(context, largest):
    there = rpc.rpc_async(SERVER, squared_norms, args=(context,))
    norm = (squared_norms(context) + there.wait()) ** 0.5
    factor = largest / (norm + 1e-6)
    if factor < 1:
        there = rpc.rpc_async(SERVER, scale, args=(context, factor))
        scale(context, factor)
        there.wait()


def train(asked):
    with open(asked.text, "rb") as file:
        words, text = learnt_text(file.read(), asked.vocabulary)
    torch.manual_seed(1)
    model = Model(words, asked)
    optimizer = DistributedOptimizer(
        torch.optim.SGD, model.parameter_rrefs(), lr=asked.learning_rate
    )
    criterion = nn.CrossEntropyLoss()
    state, tokens, losses = None, 0, []
    dealt = batches(text, asked.batch_size, asked.length)
    started = now()
    for _ in range(asked.max_steps):
        data, target, begins = next(dealt)
        with autograd.context() as context:
            scores, state = model(data, None if begins else state)
            state = tuple(each.detach() for each in state)
            loss = criterion(scores, target)
            autograd.backward(context, [loss])
            clip(context, asked.clip)
            optimizer.step(context)
        losses.append(loss.item())
        tokens += len(target)
    seconds = now() - started
    # Both sides have learnt: nobody compares the speed of something that is broken.
    last = losses[-max(len(losses) // 10, 1) :]
    assert sum(last) / len(last) < losses[0], "nothing was learnt"
    return {"unit": "tokens/s", "value": tokens / seconds}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--row", default="rnn_tokens")
    parser.add_argument("--json", required=True)
    parser.add_argument("--text", required=True)
    for name in ("vocabulary", "embedding", "hidden", "layers", "batch-size", "length"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--max-steps", type=int, required=True)
    parser.add_argument("--learning-rate", type=float, default=20)
    parser.add_argument("--clip", type=float, default=0.25)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    options = rpc.TensorPipeRpcBackendOptions(rpc_timeout=600)
    rpc.init_rpc(f"rank{RANK}", rank=RANK, world_size=RANKS, rpc_backend_options=options)
    if RANK == 0:
        write(asked.json, asked.row, RANKS, [train(asked)])
    rpc.shutdown()


if __name__ == "__main__":
    main()
