"""Fixed contacts: what robots, engine models, cards, options and data sets say of them, and what is refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from flashnerd_ext.bundle.card import Card, format_card, parse_card
from flashnerd_ext.bundle.make import envelope, make_card
from flashnerd_ext.bundle.store import Bundle, load_bundle, save_bundle, self_test
from flashnerd_ext.bundle.table import bundle_table
from flashnerd_ext.data.dataset import Trajectories, fixed_of
from flashnerd_ext.data.engines import load_or_export
from flashnerd_ext.data.engines.exported import ExportedModel
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.evaluation.predictors import detector_of
from flashnerd_ext.model.registry import build_model
from flashnerd_ext.robots.description import fixed_links
from flashnerd_ext.robots.registry import ROBOTS, get_robot
from flashnerd_ext.training.config import TrainDynamicsConfig
from flashnerd_ext.training.dynamics import contact_options, start_from
from flashnerd_ext.training.mixture import joined

ANT = get_robot("ant")
FIXED = fixed_links(ANT, "fixed")


def model_and_card(fixed: tuple[str, ...] = FIXED, name: str = "flashnerd", **options: int) -> tuple[Any, Card]:
    """A tiny model of Ant and its card."""
    layout, rng = ANT.layout, np.random.default_rng(0)
    size = {"width": 8, "heads": 2} | ({"hidden": 8} if name == "flashnerd" else {"layers": 1, "window": 3})
    rows = {"rows_capacity": len(fixed), "slots": 0} if fixed else {"rows_capacity": 10}
    torch.manual_seed(0)
    model = build_model(name, layout, size | rows | {"links": len(ANT.links)} | options)
    q = rng.uniform(-1, 1, (64, layout.nq))
    reach = envelope(layout, q, rng.uniform(-1, 1, (64, layout.nv)), rng.uniform(-1, 1, (64, layout.nu)))
    return model, make_card(robot=ANT, model=model, envelope=reach, engine="mujoco_c", seed=0, fixed=fixed)


def saved(folder: Path, fixed: tuple[str, ...] = FIXED, name: str = "flashnerd", **options: int) -> Bundle:
    return save_bundle(folder, *model_and_card(fixed, name, **options))


def exported(fixed: tuple[str, ...] = ()) -> ExportedModel:
    return ExportedModel(
        robot="ant", asset_key="ant@test", xml="", fields={}, joint_names=("a",), qpos_index=(7,), dof_index=(6,),
        actuation="effort", actuated_dofs=(6,), sim_dt=0.01, decimation=2, versions={}, capacity=10, gap=0.03,
        links={name: f"ant_{name}" for name in ANT.links}, fixed=fixed,
    )  # fmt: skip


def test_every_walking_robot_names_links_of_its_own() -> None:
    counts = {}
    for name, robot in ROBOTS.items():
        if robot.contacts is None:
            with pytest.raises(FlashNerdError, match=f"robot={name} touches nothing: type contacts=variable"):
                fixed_links(robot, "fixed")
            continue
        links = fixed_links(robot, "fixed")
        assert set(links) <= set(robot.links) and len(set(links)) == len(links)
        # Feet come first, so that they are the same rows in every robot's data.
        assert links[: len(robot.contacts.feet)] == robot.contacts.feet
        assert robot.base_link in links
        assert fixed_links(robot, "variable") == ()
        counts[name] = len(links)
    assert counts == {"anymal_c": 13, "go2": 13, "g1": 10, "g1_29": 10, "ant": 5}
    with pytest.raises(FlashNerdError, match="contacts is 'fixd', which is unknown: did you mean fixed"):
        fixed_links(ANT, "fixd")
    bare = dataclasses.replace(ANT, contacts=dataclasses.replace(ANT.contacts, fixed=()))  # type: ignore[type-var]
    with pytest.raises(FlashNerdError, match="names no links for fixed contacts"):
        fixed_links(bare, "fixed")


def test_engine_models_of_variable_contacts_keep_file_and_hash(tmp_path: Path) -> None:
    variable, fixed = exported(), exported(FIXED)
    variable.save(tmp_path / "variable")
    text = json.loads((tmp_path / "variable" / ExportedModel.FILE).read_text())
    assert "fixed" not in text
    assert ExportedModel.load(tmp_path / "variable") == variable
    assert variable.contacts == "variable"
    # The hash of the same content as it was computed before there were fixed contacts.
    assert variable.hash == "ea6c918dcb97fe3466490f90339cf1dd9592cb6c8830a3bbe7fe28d5ed2e8755"
    fixed.save(tmp_path / "fixed")
    assert ExportedModel.load(tmp_path / "fixed") == fixed
    assert fixed.contacts == "fixed" and fixed.capacity == 10
    assert fixed.hash not in (variable.hash, exported(FIXED[::-1]).hash)


def test_a_folder_of_the_other_kind_is_refused(tmp_path: Path) -> None:
    exported(FIXED).save(tmp_path)
    assert load_or_export(ANT, tmp_path).fixed == FIXED
    assert load_or_export(ANT, tmp_path, "fixed").fixed == FIXED
    with pytest.raises(FlashNerdError, match="has contacts=fixed rows, but contacts=variable is wanted: type contacts"):
        load_or_export(ANT, tmp_path, "variable")


@pytest.mark.parametrize("name", ["flashnerd", "nerd", "nerd_optimized"])
def test_a_bundle_says_its_kind_and_links(tmp_path: Path, name: str) -> None:
    bundle = load_bundle(saved(tmp_path / "b", name=name).path)
    contacts = bundle.card.contacts
    assert (contacts.kind, contacts.fixed, contacts.capacity) == ("fixed", FIXED, len(FIXED))
    assert bundle.model.rows_capacity == len(FIXED)
    self_test(bundle)
    assert "5 fixed rows (front_left_foot" in bundle_table(bundle)


def test_cards_of_variable_contacts_do_not_mention_the_kind(tmp_path: Path) -> None:
    bundle = saved(tmp_path / "b", ())
    text = format_card(bundle.card)
    assert '"kind": "variable"' not in text and '"fixed"' not in text
    assert bundle.card.contacts.kind == "variable" and bundle.card.contacts.fixed == ()
    # Written out it means the same, and has the same hash.
    written = json.loads(text)
    written["contacts"] |= {"kind": "variable", "fixed": []}
    assert parse_card(json.dumps(written).encode()) == bundle.card
    # A model without rows has none, whatever its data have.
    model = build_model("flashnerd", ANT.layout, {"width": 8, "heads": 2, "hidden": 8})
    card = make_card(robot=ANT, model=model, envelope=bundle.card.envelope, engine="e", seed=0, fixed=FIXED)
    assert card.contacts.kind == "variable" and card.contacts.detector == "none"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "some"}, "'contacts.kind' is 'some', but one of variable, fixed"),
        ({"kind": "variable"}, "an empty list with the kind 'variable'"),
        ({"fixed": []}, "a list of links with the kind 'fixed'"),
        ({"fixed": ["torso"] * 5}, "without repetition"),
        ({"fixed": [*FIXED[:4], "tail"]}, "is 'tail', but one of contacts.links"),
        ({"capacity": 4}, "'contacts.capacity' is 4, but 5, one row a link"),
    ],
)
def test_cards_that_contradict_themselves_are_refused(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    content = json.loads(format_card(saved(tmp_path / "b").card))
    content["contacts"] |= change
    with pytest.raises(FlashNerdError) as error:
        parse_card(json.dumps(content).encode(), sealed=False)
    assert words in str(error.value)


def test_a_model_of_another_number_of_rows_is_refused(tmp_path: Path) -> None:
    model, card = model_and_card()
    fewer = dataclasses.replace(card.contacts, capacity=4, fixed=FIXED[:4])
    with pytest.raises(FlashNerdError, match=r"'contacts.capacity' is 4, but 5, the rows that the model takes"):
        save_bundle(tmp_path / "b", model, card.replace(contacts=fewer))


@pytest.mark.parametrize("name", ["flashnerd", "nerd", "nerd_optimized"])
def test_options_follow_the_data(name: str) -> None:
    def options(fixed: tuple[str, ...], **given: int) -> dict[str, Any]:
        return contact_options(TrainDynamicsConfig(robot="ant", model=name, data="D", options=dict(given)), ANT, fixed)

    found = options(FIXED)
    assert (found["rows_capacity"], found["slots"], found["links"]) == (5, 0, 9)
    found = options(())
    assert (found["rows_capacity"], found["links"]) == (10, 9) and "slots" not in found
    assert options(FIXED, rows_capacity=0)["rows_capacity"] == 0
    assert options(FIXED, slots=2)["slots"] == 2
    assert options((), rows_capacity=6)["rows_capacity"] == 6
    with pytest.raises(FlashNerdError, match="rows_capacity is 6, but data=D has 5 fixed contact rows: type options"):
        options(FIXED, rows_capacity=6)
    cart = get_robot("cartpole")
    assert contact_options(TrainDynamicsConfig(robot="cartpole", model=name), cart) == {}


def test_training_goes_on_with_rows_of_the_same_kind_only(tmp_path: Path) -> None:
    fixed, variable = saved(tmp_path / "fixed"), saved(tmp_path / "variable", ())

    def start(bundle: Bundle, links: tuple[str, ...]) -> tuple[str, ...]:
        model = build_model("flashnerd", ANT.layout, bundle.card.model.config)
        config = TrainDynamicsConfig(robot="ant", data="D", init=str(bundle.path))
        return start_from(config, model, links)

    assert start(fixed, FIXED) == (fixed.hash,)
    assert start(variable, ()) == (variable.hash,)
    with pytest.raises(FlashNerdError, match="takes contacts=fixed rows, but data=D has contacts=variable ones: give"):
        start(fixed, ())
    with pytest.raises(FlashNerdError, match="takes contacts=variable rows, but data=D has contacts=fixed ones"):
        start(variable, FIXED)
    with pytest.raises(FlashNerdError, match=r"fixed contacts of the links .* make the data anew"):
        start(fixed, FIXED[::-1])
    # A model without rows does not care.
    without = saved(tmp_path / "without", (), rows_capacity=0)
    assert start(without, FIXED) == (without.hash,)


def test_data_sets_of_two_kinds_are_not_mixed() -> None:
    def data(folder: str, fixed: tuple[str, ...]) -> Trajectories:
        empty = np.zeros((2, 3, 1))
        meta = {"folder": folder, "samplers": ["a"], "fixed": fixed}
        return Trajectories(empty, empty, empty[:, :2], np.ones((2, 2), bool), np.zeros(2, np.uint8), {}, meta)

    assert len(joined([data("A", FIXED), data("B", FIXED)]).valid) == 4
    with pytest.raises(FlashNerdError, match="B has contacts=variable rows, but A has contacts=fixed ones: record it"):
        joined([data("A", FIXED), data("B", ())])
    with pytest.raises(FlashNerdError, match="ones of other links"):
        joined([data("A", FIXED), data("B", FIXED[::-1])])
    assert fixed_of({}) == () and fixed_of({"fixed": list(FIXED)}) == FIXED


def test_seeds_of_one_model_take_one_kind(tmp_path: Path) -> None:
    fixed, variable = saved(tmp_path / "fixed"), saved(tmp_path / "variable", ())
    with pytest.raises(FlashNerdError, match=r"differ in their contacts .*give each kind a name of its own"):
        detector_of([fixed, variable], tmp_path)
    without = saved(tmp_path / "without", (), rows_capacity=0)
    assert detector_of([without], tmp_path) is None
