"""The folder of a session on this machine: keys, agreement and models.

Each company's files are in a folder of its name, as they would be on its own machine.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from party import keys as identity
from party.model.company_model import CompanyModel
from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table
from protocol.agreement.render import written
from protocol.runtime.files import read_agreement
from scripts.lab.common.agreements import agreement_table
from scripts.lab.common.instances import Instance
from scripts.lab.common.ports import reserve


def prepare(folder: Path, instance: Instance, options: argparse.Namespace) -> Agreement:
    """Make everything that the processes of a session of drawn companies need."""
    table = agreement_table(instance, options)
    table["session"] = f"demo-{options.seed}"
    return equip(folder, table, instance.data, options)


def equip(
    folder: Path, table: dict[str, Any], data: Sequence[CompanyModel], options: argparse.Namespace
) -> Agreement:
    """Write keys, models and the agreement of this table. Reserves the ports."""
    import zmq

    public, secret = zmq.curve_keypair()
    table["transport"] = {
        "topology": options.topology,
        "coordinator": f"tcp://127.0.0.1:{reserve(2)}",
        "coordinator_key": public.decode(),
        "patience_seconds": options.patience,
    }
    for member, own in zip(table["member"], data, strict=True):
        home = folder / member["name"]
        home.mkdir(parents=True)
        keys = identity.generate(member["name"])
        identity.save(keys, home / f"{keys.name}.key")
        save_model(own, home / "model.npz")
        member["signing_key"] = keys.signing_key.hex()
        member["transport_key"] = keys.transport_key.decode()
    key = folder / "coordinator.key"
    key.touch(mode=0o600)
    key.write_text(secret.decode() + "\n")
    (folder / "agreement.toml").write_text(written(from_table(table)))
    return read_agreement(folder / "agreement.toml")


def save_model(data: CompanyModel, path: Path) -> None:
    """Write a model as the `.npz` file of a company."""
    matrix = np.zeros((data.resources + data.private_rows, data.columns))
    columns = np.repeat(np.arange(data.columns), np.diff(data.start))
    matrix[data.index, columns] = data.value
    path.touch(mode=0o600)
    np.savez(
        path,
        A=matrix[: data.resources],
        B=matrix[data.resources :],
        b=data.row_upper,
        u=data.utility,
        lower=data.lower,
        upper=data.upper,
        names=np.array(data.names),
    )
