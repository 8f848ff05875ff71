"""What a BlazingMQ client and a broker sent to each other, byte for byte."""

from __future__ import annotations

from headgate.core.model.message import Properties
from headgate.wire.bmq.codec.control import (
    BrokerResponse,
    Category,
    ClientIdentity,
    ClientType,
    ConfigureQueueStream,
    ConfigureStream,
    ConsumerInfo,
    ConsumerSubscription,
    ControlMessage,
    Expression,
    GuidInfo,
    HandleParameters,
    OpenQueue,
    OpenQueueResponse,
    QueueStreamParameters,
    RoutingConfiguration,
    Status,
    StreamParameters,
    SubIdInfo,
)

FEATURES = "PROTOCOL_ENCODING:BER,JSON;MPS:MESSAGE_PROPERTIES_EX"

HELLO_BYTES = bytes.fromhex(
    "0000008c 41020000 3080 a080 a080 800101 81030f423f 820101 83073c737464696e3e"
    "8402060b 850101 8600 8734" + FEATURES.encode().hex() + "8800 8901ff 8a0101"
    "ab80 800c334444313937383844373744 810818e824a22ca0f10d 0000"
    "000000000000 01"
)
HELLO = ClientIdentity(
    process_name="<stdin>",
    pid=1547,
    features=FEATURES,
    guid_info=GuidInfo("3DD19788D77D", 0x18E824A22CA0F10D),
)

REPLY_JSON = (
    '{"brokerResponse":{"result":{"category":"E_SUCCESS","code":0,"message":""},'
    '"protocolVersion":1,"brokerVersion":999999,"isDeprecatedSdk":false,"brokerIdentity":'
    '{"protocolVersion":1,"sdkVersion":999999,"clientType":"E_TCPBROKER","processName":"headgate",'
    '"pid":1540,"sessionId":1,"hostName":"localhost","features":"PROTOCOL_ENCODING:JSON",'
    '"clusterName":"","clusterNodeId":-1,"sdkLanguage":"E_CPP","guidInfo":{"clientId":"",'
    '"nanoSecondsFromEpoch":0}},"heartbeatIntervalMs":3000,"maxMissedHeartbeats":10}}'
)
REPLY = BrokerResponse(
    Status(Category.SUCCESS),
    broker_identity=ClientIdentity(
        client_type=ClientType.TCPBROKER,
        process_name="headgate",
        pid=1540,
        host_name="localhost",
        features="PROTOCOL_ENCODING:JSON",
    ),
)

OPEN_BYTES = bytes.fromhex(
    "00000050 41020000 3080 800102 a180 aa80 a080"
    "8017626d713a2f2f642e66616e6f75742f713f69643d666f6f 810100"
    "a280 800101 8103666f6f 0000 830102 840101 850100 860100 0000000000000000 01"
)
OPEN = ControlMessage(
    2, OpenQueue(HandleParameters("bmq://d.fanout/q?id=foo", 0, SubIdInfo(1, "foo"), 2, 1, 0, 0))
)

OPENED_JSON = (
    '{"rId":2,"openQueueResponse":{"originalRequest":{"handleParameters":'
    '{"uri":"bmq://d.fanout/q?id=foo","qId":0,"subIdInfo":{"subId":1,"appId":"foo"},"flags":2,'
    '"readCount":1,"writeCount":0,"adminCount":0}},"routingConfiguration":{"flags":10},'
    '"deduplicationTimeMs":300000}}'
)
OPENED = ControlMessage(
    2,
    OpenQueueResponse(
        OpenQueue(HandleParameters("bmq://d.fanout/q?id=foo", 0, SubIdInfo(1, "foo"), 2, 1, 0, 0)),
        RoutingConfiguration(10),
        300_000,
    ),
)

CONFIGURE_BYTES = bytes.fromhex(
    "00000038 41020000 3080 800103 a180 ae80 800100"
    "a180 a080 800101 8103666f6f 0000 810107 8202270f 830103 840101 0000000000000000 01"
)
CONFIGURE = ControlMessage(
    3, ConfigureQueueStream(0, QueueStreamParameters(SubIdInfo(1, "foo"), 7, 9999, 3, 1))
)

STREAM_BYTES = bytes.fromhex(
    "00000054 41020000 3080 800102 a180 b080 800100 a180 80095f5f64656661756c74"
    "a180 3080 800101 a180 800100 8100 0000"
    "a280 3080 800107 8102270f 820103 830101 0000 0000"
    "000000000000000000000000 0202"
)
STREAM = ControlMessage(
    2,
    ConfigureStream(
        0,
        StreamParameters(
            "__default",
            (ConsumerSubscription(1, Expression(0, ""), (ConsumerInfo(7, 9999, 3, 1),)),),
        ),
    ),
)

GUID = bytes.fromhex("40000000000001a390c43dd19788d77d")

AREA_OLD = bytes.fromhex("1b0000080002 180000020001 140000080001 736162 780000000000000005 0202")
AREA_NEW = bytes.fromhex("1b0000080002 180000000001 140000030001 736162 780000000000000005 0202")
PROPERTIES: Properties = {"s": "ab", "x": 5}

PUT_BYTES = (
    bytes.fromhex("00000050 42020000 30000012 00000009 00000000")
    + GUID
    + bytes.fromhex("d78bc27a 00000000")
    + AREA_OLD
    + bytes.fromhex("6869 0202")
)
PUSH_BYTES = (
    bytes.fromhex("00000054 44020000 20000013 00000208 00000000")
    + GUID
    + bytes.fromhex("00000000 04000002 00000001")
    + AREA_OLD
    + bytes.fromhex("6869 0202")
)
ACK_BYTES = bytes.fromhex("00000024 45020000 16000000 00000000") + GUID + bytes(4)
CONFIRM_BYTES = bytes.fromhex("00000024 43020000 16000000 00000000") + GUID + b"\0\0\0\1"
