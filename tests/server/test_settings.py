"""Where settings come from, what wins, and what is said about mistakes."""

import re
from pathlib import Path

import pytest

from lakebed.errors import ErrorKind, InvalidInputError
from lakebed.http.front import SecureCookies
from lakebed.model.lifetimes import Lifetimes
from lakebed.server.config import Config, FirstUser, decode_config, encode_config, load_config
from lakebed.server.describe import describe
from lakebed.server.effective import effective
from lakebed.server.settings import SETTINGS, unknown_variables

DOCS = Path(__file__).parents[2] / "docs"


def load(folder: Path, *, toml: str = "", flags: dict[str, str] | None = None, **environment: str) -> Config:
    file = folder / "given.toml"
    file.write_text(toml)
    return load_config(flags=flags or {}, environment=environment, file=file)


def refusal(folder: Path, *, toml: str = "", flags: dict[str, str] | None = None, **environment: str) -> str:
    with pytest.raises(InvalidInputError) as raised:
        load(folder, toml=toml, flags=flags, **environment)
    assert raised.value.kind is ErrorKind.INVALID_CONFIG
    return str(raised.value)


def test_a_flag_wins_over_a_variable_over_the_file_over_the_default(tmp_path: Path) -> None:
    assert load(tmp_path).workers == 2
    assert load(tmp_path, toml="workers = 3").workers == 3
    assert load(tmp_path, toml="workers = 3", LAKEBED_WORKERS="4").workers == 4
    assert load(tmp_path, toml="workers = 3", flags={"workers": "5"}, LAKEBED_WORKERS="4").workers == 5


def test_without_anything_a_configuration_is_the_default_one() -> None:
    assert load_config(flags={}, environment={}) == Config(data=Path("lakebed-data"))


def test_the_file_is_the_one_named_by_flag_or_variable_or_the_one_in_the_data_folder(tmp_path: Path) -> None:
    (tmp_path / "lakebed.toml").write_text("workers = 3")
    (tmp_path / "other.toml").write_text("workers = 4")
    other, data = tmp_path / "other.toml", {"data": str(tmp_path)}
    assert effective(flags=data, environment={})["workers"] == 3
    assert effective(flags={}, environment={"LAKEBED_DATA": str(tmp_path)})["workers"] == 3
    assert effective(flags=data, environment={"LAKEBED_CONFIG": str(other)})["workers"] == 4
    assert effective(flags=data, environment={}, file=other)["workers"] == 4


def test_a_file_in_the_data_folder_cannot_say_where_that_is(tmp_path: Path) -> None:
    (tmp_path / "lakebed.toml").write_text('data = "elsewhere"')
    with pytest.raises(InvalidInputError, match="data cannot be set"):
        effective(flags={"data": str(tmp_path)}, environment={})


def test_paths_in_a_file_are_meant_from_where_the_file_is(tmp_path: Path) -> None:
    assert load(tmp_path, toml='data = "lake"').data == tmp_path / "lake"


def test_every_part_of_a_configuration_is_said_by_a_setting(tmp_path: Path) -> None:
    config = load(
        tmp_path,
        toml="""
        listen = "[::1]:9000"
        database = "postgresql://u:p@h/d"
        shutdown_seconds = 5
        threads = 1
        processes = 3
        [tls]
        cert = "c.pem"
        key = "/etc/k.pem"
        [http]
        hosts = ["lake.example", "other.example:8443"]
        trusted_proxies = ["127.0.0.1", "10.0.0.0/8", "fd00::/8"]
        secure_cookies = "always"
        [installation]
        user_name = "ada"
        access_key_id = "AKIA"
        secret_access_key = "hush"
        key = "0123456789abcdef0123456789abcdef"
        [storage]
        default = "s3"
        [storage.local]
        import_prefixes = ["/in,box", "s3://bucket/in/"]
        fsync = false
        [storage.s3]
        endpoint = "http://h:1"
        region = "eu-central-1"
        path_style = false
        access_key_id = "id"
        secret_access_key = "hush"
        session_token = "hush"
        [cache]
        bytes = 1000
        [staging]
        wait_seconds = 1
        [compactor]
        lease_seconds = 20
        fold_layers = 4
        fold_quiet_seconds = 5
        tree_entries = 1000
        tree_tombstones = 1001
        tree_bytes = 100_000
        tree_layers = 10
        tree_quiet_seconds = 7
        seal_rows = 2000
        queue_max = 50
        failures_max = 5
        held_seconds = 61
        [links]
        lifetime_seconds = 3600
        [slices]
        seconds = 600
        objects = 1000
        [maintenance]
        seconds = 30
        [log]
        format = "json"
        level = "debug"
        """,
        LAKEBED_GRACE_SECONDS="1800",
    )
    limits = config.compaction_limits
    assert (limits.lease_seconds, limits.fold_layers, limits.fold_quiet_seconds) == (20, 4, 5)
    assert (limits.l2_entries, limits.l2_tombstones, limits.l2_bytes) == (1000, 1001, 100_000)
    assert (limits.l2_layers, limits.l2_quiet_seconds, limits.seal_rows) == (10, 7, 2000)
    assert (limits.jobs_max, limits.failures_max, limits.held_seconds) == (50, 5, 61)
    assert config.lifetimes == Lifetimes(grace_seconds=1800, link_seconds=3600, slice_seconds=600)
    assert (config.slice_objects, config.maintenance_seconds) == (1000, 30)
    assert (config.host, config.port, config.endpoint) == ("::1", 9000, "https://[::1]:9000")
    assert config.hosts == ("lake.example", "other.example:8443")
    assert config.trusted_proxies == ("127.0.0.1/32", "10.0.0.0/8", "fd00::/8")
    assert config.secure_cookies is SecureCookies.ALWAYS
    assert config.tls is not None
    assert (config.tls.cert, config.tls.key) == (tmp_path / "c.pem", Path("/etc/k.pem"))
    assert config.first_user.pair is not None
    assert (config.first_user.name, config.first_user.pair.secret_access_key) == ("ada", "hush")
    assert config.import_prefixes == ("local:///in,box", "s3://bucket/in/")
    assert (config.storage.fsync, config.storage.s3_path_style) == (False, False)
    assert (config.cache_bytes, config.staging_wait_seconds) == (1000, 1.0)
    assert (config.log_json, config.log_level, config.shutdown_seconds) == (True, 10, 5)
    assert (config.threads, config.processes, config.default_storage) == (1, 3, "s3")
    assert "hush" not in repr(config)


def test_workers_get_everything_but_the_first_users_key(tmp_path: Path) -> None:
    pair = {"LAKEBED_INSTALLATION_ACCESS_KEY_ID": "AKIA", "LAKEBED_INSTALLATION_SECRET_ACCESS_KEY": "hush"}
    config = load(tmp_path, toml='[tls]\ncert = "c"\nkey = "k"', **pair)
    handed = decode_config(encode_config(config))
    assert handed.first_user == FirstUser()
    assert (handed.data, handed.tls, handed.storage) == (config.data, config.tls, config.storage)
    assert "hush" not in encode_config(config)


def test_an_empty_variable_is_none_and_an_empty_list_of_prefixes_is_empty(tmp_path: Path) -> None:
    toml = 'database = "lmdb:///x"\n[storage.local]\nimport_prefixes = ["/in"]'
    empty = load(tmp_path, toml=toml, LAKEBED_DATABASE="", LAKEBED_STORAGE_LOCAL_IMPORT_PREFIXES="")
    assert (empty.kv_url, empty.import_prefixes) == ("lmdb:///x", ())
    two = load(tmp_path, toml=toml, LAKEBED_STORAGE_LOCAL_IMPORT_PREFIXES="/a, s3://b/")
    assert two.import_prefixes == ("local:///a", "s3://b/")


def test_aws_variables_fill_what_is_not_given_and_never_half_of_a_key(tmp_path: Path) -> None:
    aws = {
        "AWS_ACCESS_KEY_ID": "aws-id",
        "AWS_SECRET_ACCESS_KEY": "aws-secret",
        "AWS_SESSION_TOKEN": "aws-token",
        "AWS_REGION": "eu-central-1",
        "AWS_ENDPOINT_URL": "http://aws:1",
    }
    filled = load(tmp_path, **aws).storage
    assert (filled.s3_access_key_id, filled.s3_secret_access_key, filled.s3_session_token) == (
        "aws-id",
        "aws-secret",
        "aws-token",
    )
    assert (filled.s3_region, filled.s3_endpoint) == ("eu-central-1", "http://aws:1")
    ours = {"LAKEBED_STORAGE_S3_ACCESS_KEY_ID": "id", "LAKEBED_STORAGE_S3_SECRET_ACCESS_KEY": "secret"}
    kept = load(tmp_path, **aws, **ours, LAKEBED_STORAGE_S3_REGION="us-east-1").storage
    assert (kept.s3_access_key_id, kept.s3_secret_access_key, kept.s3_session_token) == ("id", "secret", None)
    assert kept.s3_region == "us-east-1"


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ('listn = "x"', ["listn", "did you mean listen?"]),
        ("[storage.local]\nfsnc = true", ["storage.local.fsnc", "did you mean storage.local.fsync?"]),
        ("[nothing.at.all]\nx = 1", ["nothing"]),
        ("workers = true", ["workers", "whole number"]),
        ("workers = 1.5", ["workers", "whole number"]),
        ("workers = 0", ["workers", "1 to 1,000"]),
        ("threads = 1_001", ["threads", "1 to 1,000"]),
        ("[staging]\nwait_seconds = 11", ["staging.wait_seconds", "0 to 10"]),
        ('workers = "2"', ["workers", "whole number"]),
        ("listen = 8000", ["listen", "HOST:PORT"]),
        ('listen = "host:99999"', ["listen", "HOST:PORT"]),
        ("[storage.local]\nfsync = 1", ["storage.local.fsync", "true or false"]),
        ('[storage.local]\nimport_prefixes = "/in"', ["storage.local.import_prefixes", "list"]),
        ("[storage.local]\nimport_prefixes = [1]", ["storage.local.import_prefixes", "list"]),
        ('[storage]\ndefault = "gs"', ["storage.default", "local or s3"]),
        ("[staging]\nwait_seconds = nan", ["staging.wait_seconds", "seconds"]),
        ("[data]\nx = 1", ["data", "a path"]),
        ("grace_seconds = 299", ["grace_seconds", "from 300 to 21,600"]),
        ("grace_seconds = 21601", ["grace_seconds", "from 300 to 21,600"]),
        ("[links]\nlifetime_seconds = 90_000", ["links.lifetime_seconds", "from 900 to 86,400"]),
        ("[slices]\nobjects = 1_000_001", ["slices.objects", "1,000,000"]),
        ("[compactor]\ntree_layers = 48", ["compactor.tree_layers", "2 to 47"]),
        ("[compactor]\nfailures_max = 0", ["compactor.failures_max", "1 to 100"]),
        ('[http]\nhosts = ["https://lake.example"]', ["http.hosts", "host names"]),
        ('[http]\nhosts = "lake.example"', ["http.hosts", "list"]),
        ('[http]\ntrusted_proxies = ["proxy"]', ["http.trusted_proxies", "networks"]),
        ('[http]\nsecure_cookies = "yes"', ["http.secure_cookies", "auto or always or never"]),
        ("workers = ", ["not TOML"]),
        ('[tls]\ncert = "c"', ["tls.cert is set", "tls.key is not"]),
        ('[installation]\nsecret_access_key = "hush"', ["installation.access_key_id is not"]),
        ("[installation]\nsecret_access_key = 5", ["installation.secret_access_key", "text"]),
    ],
)
def test_a_mistake_in_the_file_is_named_with_what_would_be_right(
    tmp_path: Path, toml: str, words: list[str]
) -> None:
    said = refusal(tmp_path, toml=toml)
    assert [word for word in words if word not in said] == [], said
    assert "hush" not in said


def test_a_mistake_in_a_variable_or_flag_is_named_as_it_was_written(tmp_path: Path) -> None:
    assert "LAKEBED_STORAGE_LOCAL_FSYNC is 'maybe': it must be true or false" in refusal(
        tmp_path, LAKEBED_STORAGE_LOCAL_FSYNC="maybe"
    )
    assert "--workers is 'many'" in refusal(tmp_path, flags={"workers": "many"})


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(InvalidInputError, match=re.escape(str(path))):
            effective(flags={}, environment={}, file=path)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInputError, match="UTF-8"):
        effective(flags={}, environment={}, file=tmp_path / "binary.toml")


def test_what_is_shown_has_sources_and_no_secrets(tmp_path: Path) -> None:
    (tmp_path / "lakebed.toml").write_text('[installation]\nkey = "hush-hush-hush-hush-hush-hush-hush"')
    environment = {
        "LAKEBED_DATABASE": "postgresql://u:hush@h/d?password=hush&x=1",
        "AWS_ACCESS_KEY_ID": "id",
        "AWS_SECRET_ACCESS_KEY": "hush",
        "LAKEBED_WORKRS": "3",
    }
    shown = describe(environment, data=str(tmp_path), file=None)
    rows = {row["name"]: (row["value"], row["source"]) for row in shown["settings"]}
    assert list(rows) == list(SETTINGS)
    assert rows["data"] == (str(tmp_path), "--data")
    assert rows["workers"] == ("2", "default")
    assert rows["database"] == ("postgresql://u:***@h/d?password=***&x=1", "LAKEBED_DATABASE")
    assert rows["installation.key"] == ("***", str(tmp_path / "lakebed.toml"))
    assert rows["storage.s3.access_key_id"] == ("id", "AWS_ACCESS_KEY_ID")
    assert shown["unknown_variables"] == {"LAKEBED_WORKRS": "LAKEBED_WORKERS"}
    assert "hush" not in repr(shown)


OWN_ADDRESSES = [
    ({}, "http://127.0.0.1:8000", True),
    ({}, "http://localhost:8000/", True),
    ({}, "localhost:8000", True),
    ({}, "http://127.0.0.1:9000", False),
    ({}, "http://127.0.0.2:8000", False),
    ({}, "https://s3.eu-central-1.amazonaws.com", False),
    ({}, "http://no-such-host.invalid:8000", False),
    ({}, "http://127.0.0.1:port", False),
    ({"LAKEBED_LISTEN": "0.0.0.0:80"}, "http://127.0.0.1", True),
    ({"LAKEBED_LISTEN": "[::]:8000"}, "http://[::1]:8000", True),
    ({"LAKEBED_LISTEN": "0.0.0.0:8000"}, "http://192.0.2.1:8000", False),
    ({"LAKEBED_S3_LISTEN": "127.0.0.1:9001"}, "http://127.0.0.1:9001", True),
    ({"LAKEBED_S3_DOMAIN": "s3.lake.example"}, "https://books.S3.lake.example", True),
    ({"LAKEBED_S3_DOMAIN": "s3.lake.example"}, "https://xs3.lake.example", False),
]


@pytest.mark.parametrize(("environment", "endpoint", "own"), OWN_ADDRESSES)
def test_a_server_never_stores_into_itself(
    tmp_path: Path, environment: dict[str, str], endpoint: str, own: bool
) -> None:
    aws = {"AWS_ENDPOINT_URL": endpoint, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "hush"}
    config = load(tmp_path, **environment, **aws)
    given = (config.storage.s3_endpoint, config.storage.s3_access_key_id, config.storage.s3_secret_access_key)
    assert given == ((None, None, None) if own else (endpoint, "id", "hush"))
    assert set(config.ignored_variables) == (set(aws) if own else set())
    explicit = {**environment, "LAKEBED_STORAGE_S3_ENDPOINT": endpoint}
    if own:
        assert "storage.s3.endpoint (from LAKEBED_STORAGE_S3_ENDPOINT) is this server's own" in refusal(
            tmp_path, **explicit
        )
    else:
        assert load(tmp_path, **explicit).storage.s3_endpoint == endpoint


def test_what_must_be_shared_is_what_the_table_says(tmp_path: Path) -> None:
    config = load(tmp_path)
    shared = [each for each in SETTINGS.values() if each.shared]
    assert config.shared == {each.name: each.default for each in shared}
    # Each of them reaches the value that is compared.
    for each in shared:
        changed = load(tmp_path, **{each.variable: str(each.default - 1)}).shared
        assert changed == {**config.shared, each.name: each.default - 1}


def test_variables_of_clients_are_not_taken_for_mistakes() -> None:
    assert unknown_variables(["LAKEBED_ENDPOINT", "LAKEBED_ACCESS_KEY_ID", "LAKEBED_CONFIG", "HOME"]) == {}


def test_every_number_has_bounds() -> None:
    numbers = [each for each in SETTINGS.values() if each.kind.toml in (int, (int, float))]
    assert len(numbers) > 20
    assert [each.name for each in numbers if not each.kind.bounds] == []


def test_the_page_has_every_setting_as_it_is() -> None:
    page = (DOCS / "configuration.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z0-9_.]+)` \| `(\w+)` \| (.+?) \| (.+) \|$", page, re.MULTILINE)
    expected = [
        (
            each.name,
            each.variable,
            f"`{each.shown(each.default)}`" if each.default else each.shown(each.default),
            each.described,
        )
        for each in SETTINGS.values()
    ]
    assert rows == expected


def test_the_example_file_of_the_page_is_one(tmp_path: Path) -> None:
    page = (DOCS / "configuration.md").read_text(encoding="utf-8")
    examples = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert examples
    for example in examples:
        load(tmp_path, toml=example)
