"""Agents of an environment of its own: PPO, A2C, DQN, SAC and TD3 for some steps, saved, loaded and evaluated."""

import json
import warnings

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import A2C, DQN, PPO, SAC, TD3
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecNormalize

warnings.simplefilter("ignore")
torch.set_num_threads(1)


class Walk(gym.Env):
    """A point on a line that is to come to a goal."""

    def __init__(self, discrete=True):
        self.observation_space = gym.spaces.Box(-5, 5, (2,), np.float32)
        self.action_space = gym.spaces.Discrete(3) if discrete else gym.spaces.Box(-1, 1, (1,), np.float32)
        self.discrete = discrete

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.goal, self.steps = 0.0, float(self.np_random.integers(-2, 3)), 0
        return self._seen(), {}

    def _seen(self):
        return np.array([self.at, self.goal], np.float32)

    def step(self, action):
        move = int(action) - 1 if self.discrete else float(np.clip(action[0], -1, 1))
        self.at, self.steps = float(np.clip(self.at + move, -5, 5)), self.steps + 1
        away = abs(self.at - self.goal)
        return self._seen(), -away, away < 0.1, self.steps >= 10, {}


def described(agent):
    with torch.no_grad():
        return [p.double().norm().item() for p in agent.policy.parameters()]


found = {}


def nets():
    return {"policy_kwargs": {"net_arch": [16]}, "seed": 0, "device": "cpu"}


for name, agent, steps in (
    (
        "ppo",
        PPO("MlpPolicy", make_vec_env(Walk, 2, seed=0), n_steps=16, batch_size=16, n_epochs=2, **nets()),
        64,
    ),
    ("a2c", A2C("MlpPolicy", VecNormalize(make_vec_env(Walk, 2, seed=0)), n_steps=8, **nets()), 48),
    (
        "dqn",
        DQN("MlpPolicy", Walk(), learning_starts=16, batch_size=8, target_update_interval=16, **nets()),
        48,
    ),
    ("td3", TD3("MlpPolicy", Walk(False), learning_starts=16, batch_size=8, **nets()), 32),
    ("sac", SAC("MlpPolicy", Walk(False), learning_starts=16, batch_size=8, **nets()), 32),
):
    agent.learn(steps)
    agent.save(name)
    again = type(agent).load(name, device="cpu")
    seen = np.array([[0.0, 1.0], [2.0, -1.0]], np.float32)
    actions, _ = agent.predict(seen, deterministic=True)
    found[name] = {"parameters": described(agent), "actions": actions.tolist()}
    found[name]["again"] = again.predict(seen, deterministic=True)[0].tolist() == actions.tolist()
    world = make_vec_env(lambda d=name not in ("sac", "td3"): Walk(d), 1, seed=5)
    found[name]["reward"] = [float(n) for n in evaluate_policy(agent, world, n_eval_episodes=3)]
print(json.dumps(found))
