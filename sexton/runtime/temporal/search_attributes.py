"""Register the search attributes by which the Temporal UI lists workflows. Workflows also run without them."""

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.common import TypedSearchAttributes
from temporalio.service import RPCError

from sexton.kernel.errors import SextonError
from workflows.search_attributes import ALL

ATTRIBUTES = {key.name: IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD for key in ALL}


async def missing(client: Client) -> list[str]:
    """Return the names that the namespace does not know as keywords; all of them where Temporal lists none."""
    try:
        stored = await client.operator_service.list_search_attributes(
            ListSearchAttributesRequest(namespace=client.namespace)
        )
    except RPCError:
        return sorted(ATTRIBUTES)
    return sorted(name for name, type_ in ATTRIBUTES.items() if stored.custom_attributes.get(name) != type_)


async def of_another_type(client: Client) -> list[str]:
    """Return the names that the namespace has with another type: no list of workflows can use them."""
    try:
        stored = await client.operator_service.list_search_attributes(
            ListSearchAttributesRequest(namespace=client.namespace)
        )
    except RPCError:
        return []
    types = stored.custom_attributes
    return sorted(name for name, type_ in ATTRIBUTES.items() if name in types and types[name] != type_)


async def known(client: Client, attributes: TypedSearchAttributes) -> TypedSearchAttributes:
    """Return the attributes; none where the namespace lacks one: Temporal would refuse to start the workflow."""
    return TypedSearchAttributes.empty if await missing(client) else attributes


async def register(client: Client) -> list[str]:
    """Register the missing attributes; return their names.

    Raises:
        SextonError: Temporal refuses, as Temporal Cloud does: add them in its own console.
    """
    names = sorted({*await missing(client)} - {*await of_another_type(client)})
    if names:
        request = AddSearchAttributesRequest(
            namespace=client.namespace, search_attributes={name: ATTRIBUTES[name] for name in names}
        )
        try:
            await client.operator_service.add_search_attributes(request)
        except RPCError as e:
            joined = ", ".join(names)
            raise SextonError(f"Temporal refused to register {joined} ({e.message}); rounds run without them") from e
    return names
