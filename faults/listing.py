"""All faults by their names, in the order of the table."""

from faults import damage, disk, endpoint, fuzz, kills, load, meanwhile, secrets, viewing
from faults.fault import Fault

FAULTS: dict[str, Fault] = {
    **kills.FAULTS,
    **viewing.FAULTS,
    **damage.FAULTS,
    **disk.FAULTS,
    **meanwhile.FAULTS,
    **endpoint.FAULTS,
    **load.FAULTS,
    **secrets.FAULTS,
    **fuzz.FAULTS,
}
