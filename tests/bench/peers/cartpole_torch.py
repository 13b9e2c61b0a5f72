"""CartPole over torch.distributed.rpc, as PyTorch's RPC tutorial describes it: rank 0 is the agent,
the others observe. Measures environment steps a second, learning included.

    troupe-run -n 2 python3 cartpole_torch.py --row cartpole_steps --json FILE
"""

import argparse
import os
import warnings

warnings.filterwarnings("ignore")

import gymnasium  # noqa: E402
import torch  # noqa: E402
import torch.distributed.rpc as rpc  # noqa: E402
from torch import nn  # noqa: E402

from timing import now, write  # noqa: E402

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
GAMMA = 0.99


class Observer:
    """Plays episodes; asks the agent for each action and reports each reward."""

    def __init__(self, seed):
        self.environment = gymnasium.make("CartPole-v1")
        self.seed = seed

    def play(self, agent):
        state, _ = self.environment.reset(seed=self.seed)
        self.seed = None
        steps = 0
        over = False
        while not over:
            action = agent.rpc_sync().select_action(RANK, state)
            state, reward, terminated, truncated, _ = self.environment.step(action)
            agent.rpc_sync().report_reward(RANK, reward)
            over = terminated or truncated
            steps += 1
        return steps


class Agent:
    """Owns the policy and learns from one episode of every observer (REINFORCE)."""

    def __init__(self, seed):
        torch.manual_seed(seed)
        self.policy = nn.Sequential(
            nn.Linear(4, 128), nn.Dropout(0.6), nn.ReLU(), nn.Linear(128, 2), nn.Softmax(dim=1)
        )
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=0.01)
        self.reference = rpc.RRef(self)
        self.observers = [
            rpc.remote(f"rank{rank}", Observer, args=(seed + rank,)) for rank in range(1, RANKS)
        ]
        self.forget()

    def forget(self):
        self.log_probabilities = {rank: [] for rank in range(1, RANKS)}
        self.rewards = {rank: [] for rank in range(1, RANKS)}

    def select_action(self, rank, state):
        state = torch.from_numpy(state).float().unsqueeze(0)
        choice = torch.distributions.Categorical(self.policy(state))
        action = choice.sample()
        self.log_probabilities[rank].append(choice.log_prob(action))
        return action.item()

    def report_reward(self, rank, reward):
        self.rewards[rank].append(reward)

    def play_round(self):
        playing = [
            observer.rpc_async(timeout=0).play(self.reference) for observer in self.observers
        ]
        return sum(each.wait() for each in playing)

    def learn(self):
        probabilities, returns = [], []
        for rank, rewards in self.rewards.items():
            discounted, total = [], 0.0
            for reward in reversed(rewards):
                total = reward + GAMMA * total
                discounted.append(total)
            returns += reversed(discounted)
            probabilities += self.log_probabilities[rank]
        returns = torch.tensor(returns)
        returns = (returns - returns.mean()) / (returns.std() + torch.finfo(torch.float32).eps)
        loss = -(torch.cat(probabilities) * returns).sum()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.forget()


def train(seed, episodes, seconds):
    agent = Agent(seed)
    steps, started = 0, now()
    for _ in range(episodes):
        steps += agent.play_round()
        agent.learn()
        if now() - started > seconds:
            break
    return {"unit": "steps/s", "value": steps / (now() - started)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--row", default="cartpole_steps")
    parser.add_argument("--json", required=True)
    parser.add_argument("--episodes", type=int, default=150)
    parser.add_argument("--max-seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=543)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    options = rpc.TensorPipeRpcBackendOptions(rpc_timeout=600)
    rpc.init_rpc(f"rank{RANK}", rank=RANK, world_size=RANKS, rpc_backend_options=options)
    if RANK == 0:
        write(asked.json, asked.row, RANKS, [train(asked.seed, asked.episodes, asked.max_seconds)])
    rpc.shutdown()


if __name__ == "__main__":
    main()
