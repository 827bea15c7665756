"""Collections on a Qdrant server or cluster: built beside and switched by alias, or read as found.

QDRANT_URL names the server, QDRANT_API_KEY its key (never printed, never sent over plain http to
another machine); QDRANT_GRPC_PORT, where set, moves requests to gRPC.
"""

from __future__ import annotations

import os
import uuid
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from urllib.parse import SplitResult, urlsplit

from evalkit.errors import ParameterError, RetrievalError
from evalkit.retrieval.collection import Contents, batch, layout, over, verified
from evalkit.retrieval.embedding import EmbedderSpec, parts
from evalkit.retrieval.qdrant import (
    MOST_REQUEST_BYTES,
    Fields,
    QdrantCollection,
    answering,
    dig,
    identity,
    patiently,
)

TIMEOUT_S = 10
MOST_POINTS = 256  # in one upload
METADATA = "evalkit"


def connect(url: str) -> Any:
    """A client of that server, proven by one real request; the constructor alone never fails."""
    from qdrant_client import QdrantClient

    parts = _parsed(url)
    key = os.environ.get("QDRANT_API_KEY") or None
    if parts.username or parts.password:
        raise ParameterError("QDRANT_URL holds a user or password; use QDRANT_API_KEY instead")
    if key and parts.scheme == "http" and not _is_this_machine(str(parts.hostname)):
        raise ParameterError(
            f"QDRANT_API_KEY would go in clear text to {parts.hostname}; use https"
        )
    grpc_port = os.environ.get("QDRANT_GRPC_PORT", "")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Api key is used with an insecure connection")
        client = QdrantClient(
            url=url,
            port=parts.port or (443 if parts.scheme == "https" else 6333),
            api_key=key,
            timeout=TIMEOUT_S,
            prefer_grpc=bool(grpc_port),
            grpc_port=int(grpc_port or 6334),
            check_compatibility=False,
        )
    patiently(client.get_collections, _shown(url))
    return client


def build(url: str, contents: Contents) -> str:
    """Uploads to a fresh collection, verifies it, then moves the alias; drops what it replaced.

    On any failure the fresh collection is removed and the alias stays where it was.
    """
    from qdrant_client import models

    client = connect(url)
    manifest = contents.manifest
    alias = str(manifest["name"])
    fresh = f"{alias}__{uuid.uuid4().hex[:12]}"
    before = _aliases(client).get(alias)
    try:
        _upload(client, fresh, contents)
        opened = QdrantCollection(
            client, fresh, int(manifest["dimension"]), dict(manifest["filter"])
        )
        verified(opened, contents)
        changes: list[Any] = [
            models.CreateAliasOperation(
                create_alias=models.CreateAlias(collection_name=fresh, alias_name=alias)
            )
        ]
        if before:
            old = models.DeleteAlias(alias_name=alias)
            changes.insert(0, models.DeleteAliasOperation(delete_alias=old))
        patiently(lambda: client.update_collection_aliases(changes), f"alias {alias!r}")
    except BaseException:
        with suppress(RetrievalError), answering(f"collection {fresh!r}"):
            client.delete_collection(fresh)
        raise
    if before:
        patiently(lambda: client.delete_collection(before), f"collection {before!r}")
    return f"{_shown(url)} collection {fresh} as {alias}"


def open_built(
    url: str, contents: Contents, must: Mapping[str, str]
) -> tuple[QdrantCollection, dict[str, Any]]:
    """A collection `build` made, its points read back and compared; and the stored manifest.

    `contents` says what should be there and needs no vectors. A server too old to keep a
    collection's metadata gives back what was expected: the alias itself names the generation.
    """
    client = connect(url)
    expected = contents.manifest
    name = str(expected["name"])
    aliases = _aliases(client)
    if name not in aliases:
        there = sorted({*aliases, *(c.name for c in _collections(client))})
        raise RetrievalError(
            f"there is no collection {name!r} at {_shown(url)} (there: "
            f"{', '.join(there) or 'none'}); run the index notebook first"
        )
    info = patiently(lambda: client.get_collection(name), f"collection {name!r}")
    vector = _vector_params(info, name, None)
    found = (int(vector.size), vector.distance.value)
    if found != (expected["dimension"], expected["distance"]):
        raise RetrievalError(
            f"collection {name!r} holds {found[0]} dimensions by {found[1]} where the embedder "
            f"has {expected['dimension']} by {expected['distance']}; run the index notebook"
        )
    manifest = dict((getattr(info.config, "metadata", None) or {}).get(METADATA) or expected)
    opened = over(client, manifest, must, f"Qdrant at {_shown(url)}, {aliases[name]}")
    failed = set(manifest.get("failed", {}))
    stored = tuple(chunk for chunk in contents.chunks if chunk.doc_id not in failed)
    counts = {key: manifest.get(key, expected[key]) for key in ("points", "eligible")}
    verified(opened, replace(contents, chunks=stored, manifest=dict(expected) | counts))
    return opened, manifest


@dataclass(frozen=True, slots=True)
class Existing:
    """A collection that was made elsewhere, and how its payload is to be read."""

    name: str
    fields: Fields = field(default_factory=Fields)
    must: Mapping[str, str] = field(default_factory=dict)
    vector_name: str = ""


def open_existing(
    client: Any, existing: Existing, spec: EmbedderSpec
) -> tuple[QdrantCollection, dict[str, Any]]:
    """A collection as it was found, never written to, with a report of what is in it.

    Refused: another dimension than the embedder's, points without a usable identity, a filter
    the server does not serve. One identity on several points is reported; searches then give
    each document once, by its best point.
    """
    name = existing.name
    info = patiently(lambda: client.get_collection(name), f"collection {name!r}")
    vector = _vector_params(info, name, existing.vector_name or None)
    if int(vector.size) != spec.dimension:
        raise RetrievalError(
            f"collection {name!r} holds vectors of {vector.size} numbers and {spec.name!r} gives "
            f"{spec.dimension}; name the embedder it was made with"
        )
    opened = QdrantCollection(
        client,
        name,
        int(vector.size),
        dict(existing.must),
        replace(existing.fields, others=(*existing.fields.others, *existing.must)),
        existing.vector_name or None,
    )
    report = survey(opened) | {"distance": vector.distance.value, "dimension": int(vector.size)}
    opened.settings = report
    opened.farther_is_more = vector.distance.value in ("Euclid", "Manhattan")
    return opened, report


def survey(opened: QdrantCollection) -> dict[str, Any]:
    """Exact counts, and the points whose identity is missing or shared."""
    seen: dict[str, int] = {}
    unusable: list[str] = []
    path = opened.fields.identity
    for point in opened.points(fields=[path] if path else []):
        raw = dig(point.payload or {}, path) if path else str(point.id)
        doc_id = identity(raw)
        if doc_id is None:
            unusable.append(str(point.id))
        else:
            seen[doc_id] = seen.get(doc_id, 0) + 1
    if unusable:
        raise RetrievalError(
            f"{len(unusable)} points of {opened.name!r} have no usable identity in payload field "
            f"{path!r}: points {', '.join(unusable[:4])}; name the field that holds it"
        )
    shared = [doc_id for doc_id, times in seen.items() if times > 1]
    return {
        "points": opened.count(),
        "eligible": opened.count(eligible=True),
        "documents": len(seen),
        "shared_identities": len(shared),
        "shared_examples": shared[:3],
    }


def _upload(client: Any, name: str, contents: Contents) -> None:
    from qdrant_client import models

    manifest = contents.manifest
    subject = f"collection {name!r}"
    kept = {key: value for key, value in manifest.items() if key != "overlong"}
    patiently(
        lambda: client.create_collection(name, **layout(contents), metadata={METADATA: kept}),
        subject,
    )
    for key in manifest["filter"]:
        patiently(
            partial(client.create_payload_index, name, key, models.PayloadSchemaType.KEYWORD),
            subject,
        )
    # JSON digits of the vector; the words; escapes of a text at their worst
    sizes = [int(manifest["dimension"]) * 24 + 12 * len(chunk.text) for chunk in contents.chunks]
    for part in parts(sizes, MOST_POINTS, MOST_REQUEST_BYTES):
        points = batch(contents, slice(part.start, part.stop))
        patiently(partial(client.upsert, name, points, wait=True), subject)


def _aliases(client: Any) -> dict[str, str]:
    reply = patiently(client.get_aliases, "the list of aliases")
    return {alias.alias_name: alias.collection_name for alias in reply.aliases}


def _collections(client: Any) -> list[Any]:
    return list(patiently(client.get_collections, "the list of collections").collections)


def _vector_params(info: Any, name: str, wanted: str | None) -> Any:
    vectors = info.config.params.vectors
    if not isinstance(vectors, Mapping):
        if wanted:
            raise RetrievalError(f"collection {name!r} has one unnamed vector and no {wanted!r}")
        return vectors
    if wanted in vectors:
        return vectors[wanted]
    raise RetrievalError(
        f"collection {name!r} has the vectors {', '.join(sorted(vectors)) or 'none'}; name one of "
        f"them as vector_name (asked for: {wanted or 'the unnamed one'})"
    )


def _parsed(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return parts
    except ValueError:
        pass
    raise ParameterError(
        f"QDRANT_URL {_shown(url)!r}: give http(s)://host:port, edge:<folder>, or nothing"
    )


def _is_this_machine(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def _shown(url: str) -> str:
    """The address without user, password, path or query."""
    scheme, mark, rest = url.partition("://")
    return scheme + mark + rest.partition("/")[0].partition("?")[0].rpartition("@")[2]
