"""Taking turns with environment processes, on stand-ins that answer at once."""

from __future__ import annotations

import sys
import textwrap

import pytest

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.evaluation import env_throughput

STAND_IN = """
import json, sys
step, physics, log = float(sys.argv[1]), float(sys.argv[2]), open(sys.argv[3], "a")
print(json.dumps({"ready": {"manager": "StandIn", "decimation": 2}}), flush=True)
for line in sys.stdin:
    r = json.loads(line)
    log.write(json.dumps([sys.argv[4], r["count"], r["seed"]]) + "\\n"); log.flush()
    c = r["count"]
    print(json.dumps({"wall": c * step, "physics": c * physics, "steps": c, "resets": 3}), flush=True)
"""


def stand_in(tmp_path, name, step, physics):
    script = tmp_path / "stand_in.py"
    script.write_text(textwrap.dedent(STAND_IN))
    return [sys.executable, str(script), str(step), str(physics), str(tmp_path / "log.txt"), name]


def test_turns_share_actions_and_counts_and_the_slowest_sets_the_length(tmp_path):
    commands = {"a": stand_in(tmp_path, "a", 0.001, 0.0005), "b": stand_in(tmp_path, "b", 0.004, 0.003)}
    results = env_throughput.measure(commands, num_envs=10, rounds=3, seconds=0.04, warm_up=5)
    rows = [result.row() for result in results]
    assert rows[0]["env_steps_per_s"] == pytest.approx(10 / 0.001)
    assert rows[1]["physics_s_per_step"] == pytest.approx(0.003)
    assert rows[0]["steps_per_round"] == rows[1]["steps_per_round"] == 10
    assert rows[0]["resets"] == 9
    import json

    log = [json.loads(line) for line in (tmp_path / "log.txt").read_text().splitlines()]
    timed = [entry for entry in log if entry[2] >= 2]
    assert [entry[0] for entry in timed] == ["a", "b", "b", "a", "a", "b"]
    by_round = {}
    for _, count, seed in timed:
        by_round.setdefault(seed, []).append(count)
    assert all(counts == [10, 10] for counts in by_round.values())
    ratio = env_throughput.ratios(rows, "a", "b")
    assert ratio["10"]["env"] == pytest.approx(4.0)
    assert ratio["10"]["physics"] == pytest.approx(6.0)
    assert "10,000" in env_throughput.table(rows)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ('print(\'{"error": "ValueError: no such preset"}\')', "no such preset"),
        ("import sys; sys.exit('the stack is broken')", "the stack is broken"),
        ("pass", "ended early"),
    ],
)
def test_a_process_that_fails_is_one_sentence_and_leaves_no_process(body, text):
    with pytest.raises(FlashNerdError, match=text):
        env_throughput.measure({"x": [sys.executable, "-c", body]}, 4, 1, 0.01)


def test_a_process_that_dies_between_turns_is_one_sentence(tmp_path):
    body = "print('{\"ready\": {}}', flush=True); input()"
    with pytest.raises(FlashNerdError, match="physics=x"):
        env_throughput.measure({"x": [sys.executable, "-c", body]}, 4, 1, 0.01)


def test_worker_command_names_task_physics_and_bundle():
    command = env_throughput.worker_command("Isaac-Cartpole", "flashnerd", 8, "cpu", 1, "some/folder")
    assert command[:3] == [sys.executable, "-m", "flashnerd_ext.evaluation.env_worker"]
    assert "--bundle=some/folder" in command
    assert not any(word.startswith("--bundle") for word in env_throughput.worker_command("T", "p", 8, "cpu", 1))
