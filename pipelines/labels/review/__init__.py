"""People review the proposed clusters on a page of this machine; every action goes to a log that replays exactly.

>>> from hiertree.pipelines.labels.cluster.proposing import Cluster, LabelPlace, Proposal
>>> from hiertree.pipelines.labels.review.actions import Rename
>>> from hiertree.pipelines.labels.review.log_file import History
>>> from hiertree.pipelines.labels.review.state import initial_state
>>> place = LabelPlace("pond", 3, 0.9, 0.2, 0.5, "")
>>> proposal = Proposal((Cluster("lake", "natural", 0.5, (place,), ""),), {})
>>> history = History.beginning(initial_state(proposal), annotator="anna").apply(Rename(cluster=0, name="lake or pond"))
>>> history.message
'Renamed lake to lake or pond'
"""

from .results import reviewed

__all__ = ["reviewed"]
