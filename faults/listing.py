"""All faults by their names, in the order of the table."""

from faults import kills
from faults.fault import Fault

FAULTS: dict[str, Fault] = {
    **kills.FAULTS,
}
