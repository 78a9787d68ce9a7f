"""Training goes on from a checkpoint of orbax: of ours, and of the state of a functionalized step."""

import tempfile

import jax.numpy as jnp
import orbax.checkpoint as ocp
from common import batches, jax_losses, mean_square

import functorch_port as torch
from functorch_port import interchange

PARAMS = {"weight": jnp.ones((1, 3)) * 0.1, "bias": jnp.zeros(1)}


def theirs():
    losses = jax_losses(
        lambda p, x, y: mean_square(jnp.tanh(x @ p["weight"].T + p["bias"]), y), PARAMS, batches()
    )
    return {"losses": losses, "pure": losses, "weight": PARAMS["weight"]}


def make():
    net = torch.nn.Linear(3, 1)
    torch.func.load_pytree(net, PARAMS)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def step(x, y):
        optimizer.zero_grad()
        loss = ((net(torch.as_tensor(x)).tanh() - torch.as_tensor(y)) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return net, optimizer, step


def ours():
    with tempfile.TemporaryDirectory() as folder:
        net, optimizer, step = make()
        torch.interchange.save_orbax(f"{folder}/first", net)
        with ocp.StandardCheckpointer() as checkpointer:
            weight = checkpointer.restore(f"{folder}/first")["weight"]  # by orbax alone
        losses = [step(x, y).item() for x, y in batches()[:3]]
        interchange.save_orbax(
            f"{folder}/run", {"model": net.state_dict(), "optimizer": optimizer.state_dict()}
        )
        net, optimizer, step = make()
        run = interchange.load_orbax(f"{folder}/run")
        net.load_state_dict(run["model"])
        optimizer.load_state_dict(run["optimizer"])
        losses += [step(x, y).item() for x, y in batches()[3:]]

        pure = torch.functionalize(make()[2])
        state, found = pure.state(*batches()[0]), []
        for i, batch in enumerate(batches()):
            loss, state = pure(state, *batch)
            found.append(float(loss))
            if i == 2:
                with ocp.StandardCheckpointer() as checkpointer:
                    checkpointer.save(f"{folder}/pure", state)
                    checkpointer.wait_until_finished()
                    state = checkpointer.restore(f"{folder}/pure", state)
    return {"losses": losses, "pure": found, "weight": weight}
