"""All faults by their names, in the order of the table."""

from faults import endpoint, kills
from faults.fault import Fault

FAULTS: dict[str, Fault] = {
    **kills.FAULTS,
    **endpoint.FAULTS,
}
