from tests.client.fixtures import client as client
from tests.client.fixtures import repo as repo
from tests.client.fixtures import server as server
