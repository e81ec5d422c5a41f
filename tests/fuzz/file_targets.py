"""Targets for files and requests: agreements, models, ledgers and the page server."""

import gzip
import random
import re
import shutil
import socket
import sqlite3
from contextlib import closing, suppress
from typing import Any

from party.ledger import accounts, budget_marker
from party.ledger.database import _MESSAGE_TABLES, Extent
from party.ledger.session_ledger import Ledger
from party.model import company_model
from protocol.agreement.parse import from_table, parse
from protocol.agreement.quantities import quantities
from protocol.agreement.render import written
from protocol.errors import BadAgreement, BadData, BadLedger
from protocol.privacy.calibration import Calibration
from protocol.rounds import RoundEngine
from protocol.runtime.page_server import _Request, _Server
from protocol.runtime.wait_times import WaitTime
from tests.fuzz.target import Target, edit, edited, folder
from tests.reference import random_agreements
from tests.support.builders import make_agreement
from tests.support.committed_sessions import play_until_over
from tests.support.sample_models import ARRAYS, LP, MPS, PLANTED, SHARED, npz


class AgreementFile(Target):
    """The text of an agreement. What is accepted can be written, read again and opened."""

    modules = ("protocol.agreement.parse", "protocol.agreement.fields", "protocol.agreement.rules",
               "protocol.agreement.model", "protocol.agreement.address",
               "protocol.agreement.endowment", "protocol.agreement.timing")  # fmt: skip
    words = (
        "session", "mode", "exact", "private", "clipped", "reveal", "each", "totals", "rounds",
        "rehearsal", "true", "false", "pace_seconds", "currency", "[[resource]]", "[[member]]",
        "[privacy]", "[prices]", "[transport]", "[clearing]", "name", "capacity", "unit", "worth",
        "span", "opposite", "spare", "operator", "overrun_price", "share", "floor", "endowment",
        "signing_key", "transport_key", "address", "epsilon", "delta", "accountant", "paper",
        "noise", "component", "norm", "colluders", "overrun", "truncate", "alpha", "tau",
        "share_objective", "objective_limit", "start", "zero", "step", "center", "ball", "theorem",
        "sqrt", "constant", "step_size", "momentum", "nonnegative", "tolerance", "trade_limit",
        "answer_gap", "reserve", "worth_within", "earlier", "topology", "mesh", "relay",
        "patience_seconds", "coordinator", "tcp://", "nan", "inf", "1e308", "-0.0", "= ", "{",
    )  # fmt: skip

    def seeds(self) -> list[bytes]:
        tables: list[dict[str, Any]] = [
            {},
            {"reveal": "totals"},
            {"mode": "private", "privacy": {"epsilon": 4.0, "delta": 1e-3}, "reveal": "totals"},
            {"mode": "clipped", "privacy": {"epsilon": 4.0, "delta": 1e-3, "alpha": 1.5}},
            {"prices": {"step": "center"}, "currency": "EUR"},
        ]
        drawn = [random_agreements.drawn(random.Random(seed)) for seed in range(20)]
        agreements = [*(make_agreement(**table) for table in tables), *map(from_table, drawn)]
        return [text for text in (written(a).encode() for a in agreements) if len(text) < 4096]

    def read(self, data: bytes) -> None:
        agreement = parse(data.decode(errors="replace"))
        again = parse(written(agreement))
        assert (again, again.digest) == (agreement, agreement.digest)
        with suppress(BadAgreement):
            Calibration(agreement)
            quantities(agreement)
            RoundEngine(agreement)


class ModelFile(Target):
    """A model in one of four formats. No error repeats a number of the model."""

    modules = ("party.model.lp_text", "party.model.lp_tokens", "party.model.mps_text",
               "party.model.mps_lines",
               "party.model.linear_program", "party.model.model_file",
               "party.model.company_model", "party.model.shared_rows")  # fmt: skip
    words = (
        "Maximize", "Minimize", "Subject To", "Bounds", "General", "Binary", "Free", "End", "steel",
        "power", "<=", ">=", "=", "[", "]/2", "^2", "inf", "-inf", "1e400", "NAME", "ROWS",
        "COLUMNS", "RHS", "RANGES", "BOUNDS", "ENDATA", "OBJSENSE", "MARKER", "INTORG", "INTEND",
        "QUADOBJ", "QMATRIX", "SOS", "UP", "LO", "FX", "FR", "MI", "PL", "BV", "SC", " N ", " E ",
    )  # fmt: skip

    _NAMES = ("plan.lp", "plan.mps", "plan.mps.gz", "plan.npz")

    def __init__(self) -> None:
        self._folder = folder()

    def seeds(self) -> list[bytes]:
        quadratic = LP.replace("- 2 oil\n", "- 2 oil + [ - 2 wood ^2 ] / 2\n")
        mixed = LP.replace("End\n", "General\n iron\nEnd\n")
        return [
            *(b"\0" + text.encode() for text in (LP, quadratic, mixed)),
            b"\1" + MPS.encode(),
            b"\2" + gzip.compress(MPS.encode(), mtime=0),
            b"\3" + npz(packed=True, **ARRAYS),
        ]

    def read(self, data: bytes) -> None:
        kind = data[0] % len(self._NAMES) if data else 0
        path = self._folder / self._NAMES[kind]
        path.write_bytes(data[1:])
        try:
            company_model.read(path, SHARED)
        except BadData as error:
            numbers = re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.])", str(error))
            planted = [number for number in numbers if number.lstrip("-").startswith(PLANTED)]
            assert not planted, "an error repeats a number of the model"
            raise


class LedgerFile(Target):
    """A ledger after damage: its file, its log, its cells, or the marker beside the key."""

    modules = ("party.ledger.database", "party.ledger.session_ledger", "party.ledger.accounts",
               "party.ledger.secret_records", "party.ledger.budget_marker")  # fmt: skip
    words = ("SQLite format 3\0", "sessions", "releases", "limits", "waits", "ledger", '{"id": "')

    _PLAIN = ("ledger", "sessions", "limits", "addresses", "waits")

    def __init__(self) -> None:
        self._folder = folder()
        self._agreement = make_agreement(rounds=2, resources=1, reveal="totals")
        session = play_until_over(self._agreement, 1, self._folder)
        session.sealed()
        session.ledgers[0].record_waits([WaitTime("ben", 1.5, 1.0, 2)])
        session.ledgers[0].record_addresses({"ben": "tcp://127.0.0.1:8"})
        for ledger in session.ledgers:
            ledger.close()
        self._path = self._folder / "fuzzed.ledger"
        with closing(sqlite3.connect(self._folder / "ada.ledger")) as base:
            limit = "main", 8.0, 1e-3, 1, "exact", 1e-3, 8.0, 1e-3
            base.execute("INSERT INTO limits VALUES (?, ?, ?, ?, ?, ?, ?, ?)", limit)
            base.commit()
        self._base = (self._folder / "ada.ledger").read_bytes()
        self._key = self._folder / "ada.key"
        self._key.write_bytes(b"no secret: only its place counts")

    def seeds(self) -> list[bytes]:
        marker = b'{"ledger": "ada.ledger", "id": "%s", "releases": 1}' % (b"00" * 16)
        return [
            b"\0" + self._base[:4096],
            b"\1" + edit(40, b"\1"),
            b"\1" + edit(len(self._base) // 2, b"\0\1\2\3"),
            b"\2" + bytes.fromhex("377f0682002de218") + bytes(24),
            *(bytes([3, table, 0, column, 2]) + b"text" for table in range(15)
              for column in range(3)),
            b"\4" + marker,
        ]  # fmt: skip

    def read(self, data: bytes) -> None:
        mode, rest = (data[0] % 5 if data else 0), data[1:]
        log = self._path.with_name("fuzzed.ledger-wal")
        log.unlink(missing_ok=True)
        self._path.write_bytes(edited(self._base, rest) if mode == 1 else self._base)
        if mode == 0:
            self._path.write_bytes(rest)
        elif mode == 2:
            log.write_bytes(rest)
        elif mode == 3 and not self._set_cell(rest):
            return
        elif mode == 4:
            budget_marker.marker_path(self._key).write_bytes(rest)
            budget_marker.require_marked(self._key, self._path, Extent(bytes(16), 1))
            return
        with suppress(BadLedger):
            accounts.accounts(self._path)
        with closing(Ledger(self._path, self._agreement, "ada")) as ledger:
            self._read_all(ledger)

    @staticmethod
    def _read_all(ledger: Ledger) -> None:
        assert ledger.extent.releases >= 0
        for state in ("fault", "abandoned"):
            getattr(ledger, state)
        ledger.limit()
        for read in (ledger.accounts, ledger.own, ledger.witnessed, ledger.transcript,
                     ledger.transcript_file, ledger.waits, ledger.addresses, ledger.demands,
                     ledger.allocation, ledger.opening, ledger.mask_keys,
                     ledger.unanswered):  # fmt: skip
            read()
        for number in range(3):
            ledger.release(number)

    def _set_cell(self, script: bytes) -> bool:
        """Put another value into one cell: SQLite keeps any type in any column."""
        table, row, column, kind = script[:4].ljust(4, b"\0")
        names = (*self._PLAIN, *_MESSAGE_TABLES)
        name, content = names[table % len(names)], script[4:]
        values: tuple[Any, ...] = (
            None, int.from_bytes(content[:8], "big", signed=True), content.decode(errors="replace"),
            content, float(len(content)) or float("inf"), -1.5e308,
        )  # fmt: skip
        with closing(sqlite3.connect(self._path)) as base, suppress(sqlite3.Error):
            columns = [found[1] for found in base.execute(f"PRAGMA table_info({name})")]
            keys = [found[1] for found in base.execute(f"PRAGMA table_info({name})") if found[5]]
            rows = base.execute(f"SELECT {', '.join(keys) or 'id'} FROM {name}").fetchall()  # noqa: S608
            if not rows:
                return False
            chosen = rows[row % len(rows)]
            where = " AND ".join(f"{key} = ?" for key in keys or ["id"])
            base.execute(
                f"UPDATE {name} SET {columns[column % len(columns)]} = ? WHERE {where}",  # noqa: S608
                (values[kind % len(values)], *chosen),
            )
            base.commit()
            base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return True
        return False

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


class _Source:
    """A page with a word that no request without the secret may see."""

    version = 1
    SHOWN = "shown-to-the-owner-only"

    def page(self) -> str:
        return f"<p>{self.SHOWN}</p>"

    def news(self) -> str:
        return self.SHOWN

    def metrics(self) -> str:
        return f"{self.SHOWN} 1\n"

    def health(self) -> tuple[bool, str]:
        return True, "{}"


class PageRequest(Target):
    """One connection to the page server, from its first byte to its end."""

    modules = ("protocol.runtime.page_server",)
    words = ("GET ", "POST ", "HEAD ", " HTTP/1.1\r\n", " HTTP/0.9\r\n", "Host: ", "localhost:",
             "events", "metrics", "healthz", "\r\n\r\n", "Connection: keep-alive\r\n",
             "Expect: 100-continue\r\n", "Content-Length: ",
             "Transfer-Encoding: chunked\r\n")  # fmt: skip

    _PORT = 8

    def __init__(self) -> None:
        self._server = _Server(_Source(), 0, "/x7/")
        self._server.closing.set()  # so that updates end after the first
        self._server.port = self._PORT  # the port that inputs name

    def seeds(self) -> list[bytes]:
        host = b" HTTP/1.1\r\nHost: 127.0.0.1:8\r\n\r\n"
        return [
            b"GET /x7/" + host,
            *(b"GET /x7/" + name + host for name in (b"events", b"metrics", b"healthz")),
            b"GET /" + host,
            b"POST /x7/ HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
            b"HEAD /x7/" + host + b"GET /x7/" + host,
            b"GET /x7/ HTTP/1.0\r\nConnection: keep-alive\r\nHost: localhost:8\r\n\r\n",
            b"GET /x7/ HTTP/1.1\r\nExpect: 100-continue\r\n\r\n",
        ]

    def read(self, data: bytes) -> None:
        browser, connection = socket.socketpair()
        with browser, connection:
            for end in (browser, connection):
                end.settimeout(5.0)
            browser.sendall(data)
            browser.shutdown(socket.SHUT_WR)
            with suppress(OSError):  # as the reader's own thread ends
                _Request(connection, ("127.0.0.1", 1), self._server)
            connection.close()
            answer = b""
            while part := browser.recv(1 << 16):
                answer += part
        if _Source.SHOWN.encode() in answer:
            assert b"/x7/" in data, "the page was shown without the secret"
            assert re.search(rb"(127\.0\.0\.1|localhost):8", data), "shown under another name"
        assert data[:20] not in answer or len(data) < 20, "an answer repeats the request"

    def close(self) -> None:
        self._server.server_close()
