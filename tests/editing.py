"""Files of a run, edited by hand: with checksums that fit what they hold now."""

import json
from pathlib import Path

from rlcr.runs.lines import CRC, json_line, sealed, write_object, write_whole


def seal_again(path: Path) -> None:
    """Give a JSON file, or each line of a JSONL file, the checksum of what is in it."""
    if path.suffix == ".json":
        contents = json.loads(path.read_text())
        contents.pop(CRC, None)
        write_object(path, contents)
        return
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line.pop(CRC, None)
    write_whole(path, (sealed(json_line(line)) for line in lines))
