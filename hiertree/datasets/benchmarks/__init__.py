"""Readers of the published data sets, one function each; ``benchmarks.yaml`` describes them and names their loaders."""

from .gldv2 import load_gldv2 as load_gldv2
from .hashing import load_imagenet100 as load_imagenet100
from .hashing import load_nus_wide as load_nus_wide
from .lists import load_aircraft as load_aircraft
from .lists import load_cars as load_cars
from .lists import load_cub as load_cub
from .lists import load_inshop as load_inshop
from .lists import load_sop as load_sop
from .lists import load_vehicleid as load_vehicleid
from .multilevel import load_better_mistakes as load_better_mistakes
from .multilevel import load_dyml as load_dyml
from .multilevel import load_inaturalist as load_inaturalist
from .objects import load_ijbc as load_ijbc
from .objects import load_ilias as load_ilias
from .objects import load_vggface2 as load_vggface2
from .omniglot import load_omniglot as load_omniglot
from .pickled import load_cifar as load_cifar
from .pickled import load_revisited as load_revisited
from .pickled import load_sfm120k as load_sfm120k
