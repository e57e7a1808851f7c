"""Search attributes that make rounds easy to find in the Temporal UI. Optional: without them rounds run as well."""

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.service import RPCError

from sexton.kernel.errors import SextonError
from workflows import ids

WANTED = {
    ids.ATTRIBUTE_INSTANCE.name: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
    ids.ATTRIBUTE_STATE.name: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
}


async def missing(client: Client) -> list[str]:
    """Return those that the namespace does not know; all of them where it does not tell."""
    try:
        known = await client.operator_service.list_search_attributes(
            ListSearchAttributesRequest(namespace=client.namespace)
        )
    except RPCError:
        return sorted(WANTED)
    return sorted(WANTED.keys() - known.custom_attributes.keys())


async def register(client: Client) -> list[str]:
    """Register what is missing; return their names.

    Raises:
        SextonError: Temporal refuses, as Temporal Cloud does: there they are added in its own console.
    """
    wanted = await missing(client)
    if wanted:
        request = AddSearchAttributesRequest(
            namespace=client.namespace, search_attributes={name: WANTED[name] for name in wanted}
        )
        try:
            await client.operator_service.add_search_attributes(request)
        except RPCError as e:
            refused = f"Temporal does not register {', '.join(wanted)} ({e.message})"
            raise SextonError(f"{refused}; rounds run without them") from e
    return wanted
