"""Static files: their addresses, what may be kept, and what may not be reached."""

import gzip

import pytest
from serving import Running


def assets(rheo: Running) -> list[str]:
    """Every static address that the start page names."""
    page = rheo.page()
    found = [e.get("src") or e.get("href") or "" for e in page if e.tag in ("script", "link")]
    return [address for address in found if "/static/" in address]


def test_every_file_that_a_page_names_is_there_and_may_be_kept_for_ever(shared: Running) -> None:
    named = assets(shared)
    assert len(named) >= 3
    for address in named:
        response = shared.client.get(address)
        assert response.status_code == 200, address
        assert "immutable" in response.headers["cache-control"]
        assert response.headers["vary"] == "Accept-Encoding"


def test_scripts_and_styles_have_their_types(shared: Running) -> None:
    types = {
        address.rpartition(".")[2]: shared.client.get(address).headers["content-type"] for address in assets(shared)
    }
    assert types["js"].startswith("text/javascript")
    assert types["css"].startswith("text/css")
    assert types["svg"].startswith("image/svg+xml")


def test_a_file_is_compressed_only_for_those_who_take_it(shared: Running) -> None:
    address = next(a for a in assets(shared) if a.endswith("htmx.js"))
    plain = shared.client.get(address, headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    with shared.client.stream("GET", address, headers={"Accept-Encoding": "gzip"}) as response:
        compressed = b"".join(response.iter_raw())
        assert response.headers["content-encoding"] == "gzip"
    assert gzip.decompress(compressed) == plain.content


def test_a_file_of_another_version_is_served_but_not_kept(shared: Running) -> None:
    response = shared.client.get("/static/000000000000/rheo.css")
    assert response.status_code == 200
    assert response.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    "path",
    [
        "/static/x/..%2f..%2fpyproject.toml",
        "/static/x/../../pyproject.toml",
        "/static/x/%2e%2e/%2e%2e/pyproject.toml",
        "/static/x/..%5c..%5cpyproject.toml",
        "/static/x//etc/passwd",
        "/static/x/%2fetc%2fpasswd",
        "/static/x/vendor/../../pyproject.toml",
        "/static/..%2fsecret",
        "/static/x/rheo.css%00.js",
        "/static/x/",
        "/static/",
        "/static",
        "/static/x/vendor",
        "/static/x/css/",
    ],
)
def test_g13_nothing_outside_of_the_static_files_is_reached(shared: Running, path: str) -> None:
    request = shared.client.build_request("GET", "/")
    request.url = request.url.copy_with(raw_path=path.encode())
    assert shared.client.send(request).status_code == 404
