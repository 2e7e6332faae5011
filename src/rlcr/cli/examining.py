"""`rlcr doctor`."""

from __future__ import annotations

import typer

from rlcr.cli.evaluating import Json
from rlcr.cli.show import show
from rlcr.terminal import say


def doctor(as_json: Json = False) -> None:
    """Is everything in order? Versions, devices, memory, cache, extras, and whether verifiers work."""
    from rlcr.doctor import Diagnosis, examine

    def print_findings(diagnosis: Diagnosis) -> None:
        width = max(len(finding.what) for finding in diagnosis.findings)
        for finding in diagnosis.findings:
            say(f"{'!' if finding.fault else ' '} {finding.what:{width}}  {finding.found}")
        say("  all is well" if diagnosis.well else "! marks what is wrong")

    diagnosis = examine()
    show(diagnosis, as_json, print_findings)
    raise typer.Exit(0 if diagnosis.well else 1)
