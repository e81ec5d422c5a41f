"""The targets by name."""

from tests.fuzz.file_targets import AgreementFile, LedgerFile, ModelFile, PageRequest
from tests.fuzz.message_targets import Claims, TranscriptFile, Wire
from tests.fuzz.target import Target

TARGETS: dict[str, type[Target]] = {
    "wire": Wire,
    "agreement": AgreementFile,
    "transcript": TranscriptFile,
    "ledger": LedgerFile,
    "claims": Claims,
    "model": ModelFile,
    "page": PageRequest,
}
