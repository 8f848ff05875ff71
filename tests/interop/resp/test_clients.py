"""CLIENT: names, lists and the end of connections."""

from __future__ import annotations

from tests.support.resp_client import OK, PONG, Client, Error, Verbatim
from tests.support.resp_servers import (
    Connect,
    Dial,
    Server,
    client_list,
    number_of,
    text_of,
)


def test_what_new_clients_say_of_themselves_is_accepted(headgate: Server, dial: Dial) -> None:
    """RESP-17."""
    client = dial(headgate)
    assert client.ask("CLIENT", "SETINFO", "LIB-NAME", "redis-py") == OK
    assert client.ask("CLIENT", "SETINFO", "lib-ver", "8.1.0") == OK
    number = number_of(client.ask("CLIENT", "ID"))
    line = client_list(client, "ID", number)[0]
    assert (line["lib-name"], line["lib-ver"]) == ("redis-py", "8.1.0")


def test_unknown_subcommands_are_an_error_and_the_connection_goes_on(connect: Connect) -> None:
    """RESP-17."""
    client = connect(3)
    words = ("MAINT_NOTIFICATIONS", "ON", "moving-endpoint-type", "internal-ip")
    expected = Error("ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP.")
    assert client.ask("CLIENT", *words) == expected
    assert client.ask("PING") == PONG


def test_ids_of_clients_grow(connect: Connect) -> None:
    """RESP-18. Each worker counts for itself."""
    numbers = [number_of(connect().ask("CLIENT", "ID")) for _ in range(5)]
    for worker in range(connect.server.workers):
        mine = [number for number in numbers if number % connect.server.workers == worker]
        assert mine == sorted(set(mine))


def test_a_client_has_a_name(connect: Connect, name: str) -> None:
    """RESP-18."""
    client = connect()
    assert client.ask("CLIENT", "GETNAME") is None
    assert client.ask("CLIENT", "SETNAME", name) == OK
    assert client.ask("CLIENT", "GETNAME") == name.encode()
    for wrong in ("a b", "a\nb", "\x01", "é"):
        assert client.ask("CLIENT", "SETNAME", wrong) == Error(
            "ERR Client names cannot contain spaces, newlines or special characters."
        )
    assert client.ask("CLIENT", "GETNAME") == name.encode()
    assert client.ask("CLIENT", "SETNAME", "") == OK
    assert client.ask("CLIENT", "GETNAME") is None


def test_the_list_of_subscribers_is_exact(connect: Connect, name: str) -> None:
    """RESP-19."""
    plain, many, shard, asker = (connect() for _ in range(4))
    numbers = [number_of(each.ask("CLIENT", "ID")) for each in (plain, many, shard)]
    many.ask("SUBSCRIBE", name)
    many.ask("SUBSCRIBE", name + "2")
    many.ask("PSUBSCRIBE", name + "*")
    shard.ask("SSUBSCRIBE", name)
    lines = client_list(asker, "TYPE", "pubsub")
    counted = {
        int(line["id"]): (line["flags"], line["sub"], line["psub"], line["ssub"])
        for line in lines
        if int(line["id"]) in numbers
    }
    assert counted == {numbers[1]: ("P", "2", "1", "0"), numbers[2]: ("P", "0", "0", "1")}
    many.ask("UNSUBSCRIBE", name)
    many.ask("UNSUBSCRIBE", name + "2")
    many.ask("PUNSUBSCRIBE", name + "*")
    listed = {int(line["id"]) for line in client_list(asker, "TYPE", "pubsub")}
    assert listed.isdisjoint(numbers[:2])
    normal = {int(line["id"]) for line in client_list(asker, "TYPE", "normal")}
    assert normal >= set(numbers[:2])
    assert numbers[2] not in normal


FIELDS = (
    "id addr laddr fd name age idle flags db sub psub ssub multi qbuf qbuf-free argv-mem "
    "multi-mem rbs rbp obl oll omem tot-mem events cmd user redir resp"
)


def test_a_line_of_the_list_has_the_fields_that_tools_know(
    connect: Connect, server: Server, name: str
) -> None:
    """RESP-19."""
    client = connect(3)
    client.ask("CLIENT", "SETNAME", name)
    reply = client.ask("CLIENT", "INFO")
    assert isinstance(reply, Verbatim)
    text = text_of(reply)
    assert text.endswith("\n")
    line = dict(pair.split("=", 1) for pair in text.rstrip("\n").split(" "))
    assert [field for field in FIELDS.split() if field not in line] == []
    host, port = client.address
    assert line["addr"] == f"{host}:{port}"
    assert line["laddr"] == f"{host}:{server.port}"
    assert (line["name"], line["flags"], line["db"], line["multi"]) == (name, "N", "0", "-1")
    assert (line["cmd"], line["user"], line["resp"]) == ("client|info", "default", "3")


def test_an_unknown_type_of_client_is_refused(client: Client) -> None:
    """RESP-19."""
    assert client.ask("CLIENT", "LIST", "TYPE", "x") == Error("ERR Unknown client type 'x'")
    assert client.ask("CLIENT", "LIST", "x") == Error("ERR syntax error")
    assert client.ask("CLIENT", "LIST", "ID", "x") == Error("ERR Invalid client ID")


def test_a_killed_client_loses_its_subscriptions(connect: Connect, name: str) -> None:
    """RESP-20, S002-26."""
    victim, killer = connect(), connect()
    number = number_of(victim.ask("CLIENT", "ID"))
    victim.ask("SUBSCRIBE", name)
    victim.ask("PSUBSCRIBE", name + "*")
    assert killer.ask("CLIENT", "KILL", "ID", number) == 1
    assert victim.until_closed() == []
    assert killer.ask("PUBLISH", name, "x") == 0
    assert killer.ask("PUBSUB", "NUMSUB", name) == [name.encode(), 0]
    assert killer.ask("CLIENT", "KILL", "ID", number) == 0


def test_subscribers_are_killed_by_their_type(connect: Connect, name: str) -> None:
    """RESP-20."""
    victims, killer = [connect(), connect()], connect()
    for victim in victims:
        victim.ask("SUBSCRIBE", name)
    assert number_of(killer.ask("CLIENT", "KILL", "TYPE", "pubsub")) >= 2
    for victim in victims:
        assert victim.until_closed() == []
    assert killer.ask("PUBLISH", name, "x") == 0


def test_a_client_is_killed_by_its_address(connect: Connect) -> None:
    """RESP-20."""
    victims, killer = [connect(), connect()], connect()
    first, second = (f"{host}:{port}" for host, port in (v.address for v in victims))
    assert killer.ask("CLIENT", "KILL", first) == OK
    assert killer.ask("CLIENT", "KILL", first) == Error("ERR No such client")
    assert killer.ask("CLIENT", "KILL", "ADDR", second, "USER", "default") == 1
    assert killer.ask("CLIENT", "KILL", "ADDR", second) == 0
    for victim in victims:
        assert victim.until_closed() == []


def test_a_client_that_kills_itself_is_told_first(connect: Connect) -> None:
    """RESP-20."""
    client = connect()
    number = number_of(client.ask("CLIENT", "ID"))
    assert client.ask("CLIENT", "KILL", "ID", number) == 0, "it is skipped unless it says so"
    client.send("CLIENT", "KILL", "ID", number, "SKIPME", "no")
    assert client.until_closed() == [1]


def test_a_wrong_kill_kills_nobody(client: Client) -> None:
    """RESP-20."""
    assert client.ask("CLIENT", "KILL", "ID", "x") == Error(
        "ERR client-id should be greater than 0"
    )
    assert client.ask("CLIENT", "KILL", "TYPE", "x") == Error("ERR Unknown client type 'x'")
    assert client.ask("CLIENT", "KILL", "NOSUCH", "x") == Error("ERR syntax error")
    assert client.ask("CLIENT", "KILL", "USER", "nobody") == Error("ERR No such user 'nobody'")
    assert client.ask("CLIENT", "KILL", "SKIPME", "x") == Error("ERR syntax error")


def test_small_talk_is_answered(client: Client) -> None:
    assert client.ask("CLIENT", "NO-EVICT", "ON") == OK
    assert client.ask("CLIENT", "UNPAUSE") == OK
    assert client.ask("CLIENT", "GETREDIR") == -1
