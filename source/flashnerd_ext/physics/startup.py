"""What every manager with a learned model does once the environment is known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashnerd_ext.model.frame import frame_names
from flashnerd_ext.solver.dump import GuardDump

if TYPE_CHECKING:
    from flashnerd_ext.physics.flashnerd_manager_cfg import LearnedCfg
    from flashnerd_ext.solver.learned_parts import LearnedParts


def announce(learned: LearnedParts, mode: str) -> None:
    """Say at the start which model runs."""
    card, running = learned.bundle.card, learned.stream.stepper.model
    print(
        f"[INFO] FlashNeRD: bundle '{card.name}' ({learned.bundle.hash[:12]}), {mode} mode, model {running.name}, "
        f"{running.parameter_count()} weights, step {card.dt * 1e3:.4g} ms; cache, guard and "
        f"history hold {learned.nbytes / 2**20:.1f} MiB for {len(learned.ended)} worlds"
    )


def make_dump(learned: LearnedParts, cfg: LearnedCfg, env: Any | None, effect: str) -> GuardDump:
    """What writes the guard's cases.

    Args:
        learned: Whose guard.
        cfg: Says where and how many.
        env: The environment, whose log folder is the default place.
        effect: What happens to the worlds of a case, for the log.
    """
    card = learned.bundle.card
    return GuardDump(
        _folder(cfg, env),
        cfg.guard_dumps,
        {"bundle": card.name, "hash": learned.bundle.hash, "env": type(env).__name__ if env is not None else None},
        (*card.envelope.state.names, *(n for n in frame_names(card.layout) if n.endswith(".act"))),
        effect,
    )


def _folder(cfg: LearnedCfg, env: Any | None) -> Path:
    if cfg.dump_dir:
        return Path(cfg.dump_dir).expanduser()
    log_dir = getattr(getattr(env, "cfg", None), "log_dir", None)
    return Path(log_dir or "outputs") / "flashnerd_guard"
