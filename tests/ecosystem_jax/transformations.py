"""Every public function of optax that gives a transformation, with arguments as a user gives them.

`CASES` maps a name of `optax` or `optax.contrib` to a function that makes the transformation, `UTILITIES` are the names
that make none, and `public` lists what there is, so that a name that a new version adds is missed by a test.
"""

from __future__ import annotations

import inspect
import typing

import jax
import jax.numpy as jnp
import optax

#: what trains is a net of two layers; by its names, so that masks and labels can be given
NAMES = ("0.weight", "0.bias", "2.weight", "2.bias")
MATRICES = {name: name.endswith("weight") for name in NAMES}
LABELS = {name: "matrix" if name.endswith("weight") else "vector" for name in NAMES}


def descent(*first):
    """A part such as `scale_by_adam` as an optimizer."""
    return optax.chain(*first, optax.scale(-0.05))


def later(step, **_):
    return step % 2 == 0


def rate(count):
    return 0.1 / (1 + count)


CASES = {
    # optimizers
    "adabelief": lambda: optax.adabelief(0.05),
    "adadelta": lambda: optax.adadelta(1.0, weight_decay=0.01, weight_decay_mask=MATRICES),
    "adafactor": lambda: optax.adafactor(0.05, min_dim_size_to_factor=2, momentum=0.9),
    "adagrad": lambda: optax.adagrad(0.1),
    "adam": lambda: optax.adam(0.05, nesterov=True),
    "adamax": lambda: optax.adamax(0.05),
    "adamaxw": lambda: optax.adamaxw(0.05, mask=MATRICES),
    "adamw": lambda: optax.adamw(0.05, weight_decay=0.1, mask=MATRICES),
    "adan": lambda: optax.adan(0.05, weight_decay=0.1),
    "amsgrad": lambda: optax.amsgrad(0.05),
    "fromage": lambda: optax.fromage(0.05),
    "lamb": lambda: optax.lamb(0.05),
    "lars": lambda: optax.lars(0.5),
    "lbfgs": lambda: optax.lbfgs(),
    "lion": lambda: optax.lion(0.01),
    "nadam": lambda: optax.nadam(0.05),
    "nadamw": lambda: optax.nadamw(0.05),
    "noisy_sgd": lambda: optax.noisy_sgd(0.05, key=jax.random.key(3)),
    "novograd": lambda: optax.novograd(0.05),
    "optimistic_adam": lambda: optax.optimistic_adam(0.05, optimism=0.5),
    "optimistic_adam_v2": lambda: optax.optimistic_adam_v2(0.05),
    "optimistic_gradient_descent": lambda: optax.optimistic_gradient_descent(0.05),
    "polyak_sgd": lambda: optax.polyak_sgd(0.1),
    "radam": lambda: optax.radam(0.05),
    "rmsprop": lambda: optax.rmsprop(0.01, centered=True, momentum=0.9),
    "rprop": lambda: optax.rprop(0.01),
    "sgd": lambda: optax.sgd(rate, momentum=0.9, nesterov=True),
    "sign_sgd": lambda: optax.sign_sgd(0.01),
    "signum": lambda: optax.signum(0.01),
    "sm3": lambda: optax.sm3(0.05),
    "yogi": lambda: optax.yogi(0.05),
    # parts
    "adaptive_grad_clip": lambda: optax.chain(optax.adaptive_grad_clip(0.1), optax.sgd(0.5)),
    "add_decayed_weights": lambda: descent(optax.add_decayed_weights(0.1, MATRICES)),
    "add_noise": lambda: descent(optax.add_noise(0.1, 0.55, key=jax.random.key(1))),
    "apply_every": lambda: descent(optax.apply_every(2)),
    "centralize": lambda: descent(optax.centralize()),
    "clip": lambda: descent(optax.clip(0.1)),
    "clip_by_block_rms": lambda: descent(optax.clip_by_block_rms(0.1)),
    "clip_by_global_norm": lambda: descent(optax.clip_by_global_norm(0.1)),
    "ema": lambda: descent(optax.ema(0.9)),
    "identity": lambda: descent(optax.identity()),
    "keep_params_nonnegative": lambda: descent(optax.keep_params_nonnegative()),
    "measure_with_ema": lambda: optax.chain(
        optax.measure_with_ema(lambda updates: jax.tree.map(jnp.sin, updates), 0.9), optax.sgd(0.1)
    ),
    "normalize_by_update_norm": lambda: descent(optax.normalize_by_update_norm()),
    "scale": lambda: optax.scale(-0.1),
    "scale_by_adadelta": lambda: descent(optax.scale_by_adadelta()),
    "scale_by_adam": lambda: descent(optax.scale_by_adam()),
    "scale_by_adamax": lambda: descent(optax.scale_by_adamax()),
    "scale_by_adan": lambda: descent(optax.scale_by_adan()),
    "scale_by_amsgrad": lambda: descent(optax.scale_by_amsgrad()),
    "scale_by_backtracking_linesearch": lambda: optax.chain(
        optax.sgd(1.0), optax.scale_by_backtracking_linesearch(10, store_grad=True)
    ),
    "scale_by_belief": lambda: descent(optax.scale_by_belief()),
    "scale_by_distance_over_gradients": lambda: descent(optax.scale_by_distance_over_gradients()),
    "scale_by_factored_rms": lambda: descent(optax.scale_by_factored_rms(min_dim_size_to_factor=2)),
    "scale_by_lbfgs": lambda: descent(optax.scale_by_lbfgs(4)),
    "scale_by_learning_rate": lambda: optax.scale_by_learning_rate(rate),
    "scale_by_lion": lambda: descent(optax.scale_by_lion()),
    "scale_by_novograd": lambda: descent(optax.scale_by_novograd()),
    "scale_by_optimistic_gradient": lambda: descent(optax.scale_by_optimistic_gradient()),
    "scale_by_param_block_norm": lambda: descent(optax.scale_by_param_block_norm()),
    "scale_by_param_block_rms": lambda: descent(optax.scale_by_param_block_rms()),
    "scale_by_polyak": lambda: optax.chain(optax.scale_by_polyak(), optax.scale(-1.0)),
    "scale_by_radam": lambda: descent(optax.scale_by_radam()),
    "scale_by_rms": lambda: descent(optax.scale_by_rms()),
    "scale_by_rprop": lambda: descent(optax.scale_by_rprop(0.01)),
    "scale_by_rss": lambda: descent(optax.scale_by_rss()),
    "scale_by_schedule": lambda: optax.scale_by_schedule(lambda count: -rate(count)),
    "scale_by_sign": lambda: descent(optax.scale_by_sign()),
    "scale_by_sm3": lambda: descent(optax.scale_by_sm3()),
    "scale_by_stddev": lambda: descent(optax.scale_by_stddev()),
    "scale_by_trust_ratio": lambda: descent(optax.scale_by_trust_ratio()),
    "scale_by_yogi": lambda: descent(optax.scale_by_yogi()),
    "scale_by_zoom_linesearch": lambda: optax.chain(optax.sgd(1.0), optax.scale_by_zoom_linesearch(10)),
    "set_to_zero": lambda: optax.set_to_zero(),
    "snapshot": lambda: optax.chain(optax.snapshot("norm", optax.tree.norm), optax.sgd(0.1)),
    "stateless": lambda: optax.stateless(
        lambda updates, params: jax.tree.map(lambda g, p: -0.1 * (g + 0.1 * p), updates, params)
    ),
    "stateless_with_tree_map": lambda: optax.stateless_with_tree_map(lambda g, p: -0.1 * (g + 0.1 * p)),
    "trace": lambda: descent(optax.trace(0.9)),
    "zero_nans": lambda: descent(optax.zero_nans()),
    # wrappers
    "MultiSteps": lambda: optax.MultiSteps(optax.adam(0.05), 2),
    "apply_if_finite": lambda: optax.apply_if_finite(optax.adam(0.05), 2),
    "chain": lambda: optax.chain(optax.clip_by_global_norm(0.1), optax.adam(0.05)),
    "conditionally_mask": lambda: optax.conditionally_mask(optax.adam(0.05), later),
    "conditionally_transform": lambda: descent(optax.conditionally_transform(optax.scale_by_adam(), later)),
    "flatten": lambda: optax.flatten(optax.adam(0.05)),
    "freeze": lambda: optax.chain(optax.sgd(0.1), optax.freeze(MATRICES)),
    "inject_hyperparams": lambda: optax.inject_hyperparams(optax.adamw)(rate, weight_decay=0.1),
    "inject_stateful_hyperparams": lambda: optax.inject_stateful_hyperparams(optax.sgd)(rate),
    "lookahead": lambda: optax.lookahead(optax.sgd(0.1), 3, 0.5),
    "masked": lambda: descent(optax.masked(optax.scale_by_adam(), MATRICES)),
    "monitor": lambda: optax.chain(optax.monitor({"norm": optax.tree.norm}), optax.sgd(0.1)),
    "multi_transform": lambda: optax.multi_transform(
        {"matrix": optax.adam(0.05), "vector": optax.sgd(0.1)}, LABELS
    ),
    "named_chain": lambda: optax.named_chain(("clip", optax.clip(0.1)), ("adam", optax.adam(0.05))),
    "partition": lambda: optax.partition({"matrix": optax.adam(0.05), "vector": optax.sgd(0.1)}, LABELS),
    "selective_transform": lambda: optax.selective_transform(optax.adam(0.05), freeze_mask=MATRICES),
    "with_extra_args_support": lambda: optax.with_extra_args_support(optax.sgd(0.1)),
    # optax.contrib
    "contrib.acprop": lambda: optax.contrib.acprop(0.05),
    "contrib.ademamix": lambda: optax.contrib.ademamix(0.05),
    "contrib.adopt": lambda: optax.contrib.adopt(0.05),
    "contrib.cocob": lambda: optax.contrib.cocob(),
    "contrib.dadapt_adamw": lambda: optax.contrib.dadapt_adamw(estim_lr0=1e-3),
    "contrib.dog": lambda: optax.contrib.dog(1.0),
    "contrib.dowg": lambda: optax.contrib.dowg(1.0),
    "contrib.galore": lambda: optax.contrib.galore(0.05, rank=2, update_proj_gap=3),
    "contrib.hutchinson_estimator_diag_hessian": lambda: optax.chain(
        optax.contrib.hutchinson_estimator_diag_hessian(jax.random.key(5)), optax.scale(-0.05)
    ),
    "contrib.madgrad": lambda: optax.contrib.madgrad(0.05),
    "contrib.mechanize": lambda: optax.contrib.mechanize(optax.adam(0.05), s_init=0.1),
    "contrib.momo": lambda: optax.contrib.momo(0.5),
    "contrib.momo_adam": lambda: optax.contrib.momo_adam(0.05),
    "contrib.muon": lambda: optax.contrib.muon(0.05),
    "contrib.normalize": lambda: descent(optax.contrib.normalize()),
    "contrib.prodigy": lambda: optax.contrib.prodigy(estim_lr0=1e-3),
    "contrib.reduce_on_plateau": lambda: optax.chain(
        optax.sgd(0.5), optax.contrib.reduce_on_plateau(patience=1, rtol=0.5, accumulation_size=2)
    ),
    "contrib.sam": lambda: optax.contrib.sam(
        optax.sgd(0.1), optax.chain(optax.contrib.normalize(), optax.sgd(0.05)), sync_period=2
    ),
    "contrib.sam, opaque": lambda: optax.contrib.sam(
        optax.sgd(0.1), optax.chain(optax.contrib.normalize(), optax.sgd(0.05)), opaque_mode=True
    ),
    "contrib.scale_by_acprop": lambda: descent(optax.contrib.scale_by_acprop()),
    "contrib.scale_by_ademamix": lambda: descent(optax.contrib.scale_by_ademamix()),
    "contrib.scale_by_adopt": lambda: descent(optax.contrib.scale_by_adopt()),
    "contrib.scale_by_cocob": lambda: optax.contrib.scale_by_cocob(),
    "contrib.scale_by_galore": lambda: descent(optax.contrib.scale_by_galore(rank=2, update_proj_gap=3)),
    "contrib.scale_by_madgrad": lambda: optax.contrib.scale_by_madgrad(0.05),
    "contrib.scale_by_muon": lambda: descent(
        optax.partition(
            {
                "matrix": optax.contrib.scale_by_muon(
                    weight_dimension_numbers=lambda params: jax.tree.map(
                        lambda _: optax.contrib.MuonDimensionNumbers(), params
                    )
                ),
                "vector": optax.identity(),
            },
            LABELS,
        )
    ),
    "contrib.scale_by_simplified_ademamix": lambda: descent(optax.contrib.scale_by_simplified_ademamix()),
    "contrib.schedule_free": lambda: optax.contrib.schedule_free(optax.sgd(0.1), 0.1),
    "contrib.schedule_free_adamw": lambda: optax.contrib.schedule_free_adamw(0.05, warmup_steps=2),
    "contrib.schedule_free_sgd": lambda: optax.contrib.schedule_free_sgd(0.1),
    "contrib.simplified_ademamix": lambda: optax.contrib.simplified_ademamix(0.01),
    "contrib.sophia": lambda: optax.contrib.sophia(0.05, update_interval=2),
    "contrib.split_real_and_imaginary": lambda: optax.contrib.split_real_and_imaginary(optax.adam(0.05)),
}


#: the extra arguments of an update, other than the loss, of those that need some
EXTRA = {
    "lbfgs": ("value_fn",),
    "scale_by_backtracking_linesearch": ("value_fn",),
    "scale_by_zoom_linesearch": ("value_fn",),
    "contrib.hutchinson_estimator_diag_hessian": ("obj_fn",),
    "contrib.sophia": ("obj_fn",),
    "contrib.sam, opaque": ("grad_fn",),
}

#: what is refused by name: the error and a part of its text
REFUSED = {
    "monitor": (NotImplementedError, "another structure"),
    "contrib.dpsgd": (ValueError, "have a batch dimension"),
    "contrib.differentially_private_aggregate": (ValueError, "have a batch dimension"),
}
CASES |= {
    "contrib.dpsgd": lambda: optax.contrib.dpsgd(0.1, l2_norm_clip=1.0, noise_multiplier=0.1, seed=0),
    "contrib.differentially_private_aggregate": lambda: optax.contrib.differentially_private_aggregate(
        1.0, 0.1, key=jax.random.key(0)
    ),
}

#: names that make no transformation, besides losses and schedules
UTILITIES = set(
    """
    apply_updates bias_correction contrib.schedule_free_eval_params global_norm incremental_update init_empty_state
    matrix_inverse_pth_root microbatch multi_normal nnls per_example_global_norm_clip per_example_layer_norm_clip
    periodic_update power_iteration safe_increment safe_int32_increment safe_norm safe_root_mean_squares
    scale_gradient skip_large_updates skip_not_finite tree_map_params update_infinity_moment update_moment
    update_moment_per_elem_norm value_and_grad_from_state
    """.split()
)


def public() -> set[str]:
    """The functions of `optax` and `optax.contrib`, without losses and schedules."""
    aside = {*dir(optax.losses), *dir(optax.schedules)} - {
        "inject_hyperparams",
        "inject_stateful_hyperparams",
    }
    names = {"MultiSteps"}
    for prefix, home in {"": optax, "contrib.": optax.contrib}.items():
        for name, value in vars(home).items():
            if name.startswith("_") or name in aside or inspect.isclass(value) or inspect.ismodule(value):
                continue
            if callable(value) and typing.get_origin(value) is None and type(value).__module__ != "typing":
                names.add(prefix + name)
    return names
