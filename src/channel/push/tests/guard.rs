//! Where the worker must not go, proven by listeners that nobody comes to.

use std::net::Ipv6Addr;

use wiremock::matchers::any;

use super::*;

/// Listens on both loopback addresses, on one port, and tells whether anyone came.
struct Nobody {
    listeners: Vec<StdListener>,
    port: u16,
}

impl Nobody {
    fn listening() -> Nobody {
        let v4 = StdListener::bind("127.0.0.1:0").unwrap();
        let port = v4.local_addr().unwrap().port();
        // A machine may be without IPv6.
        let listeners: Vec<_> =
            [Some(v4), StdListener::bind((Ipv6Addr::LOCALHOST, port)).ok()].into_iter().flatten().collect();
        for listener in &listeners {
            listener.set_nonblocking(true).unwrap();
        }
        Nobody { listeners, port }
    }

    fn came(&self) {
        for listener in &self.listeners {
            assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        }
    }
}

#[tokio::test]
async fn the_listeners_would_tell() {
    let nobody = Nobody::listening();
    let settings = Settings { allow_private_endpoints: true, ..settings() };
    let builder = http::client_builder().timeout(Duration::from_millis(100));
    let channel = PushChannel::over(builder, settings, Script::of(&[&["127.0.0.1"]])).unwrap();
    send(&channel, &format!("https://push.example.net:{}/x", nobody.port)).await;
    assert!(nobody.listeners[0].accept().is_ok(), "where it is allowed, it is connected to");
}

#[tokio::test]
async fn nothing_connects_to_a_literal_in_any_spelling() {
    let nobody = Nobody::listening();
    for host in [
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "127.0.1",
        "0",
        "0.0.0.0",
        "2130706433",
        "017700000001",
        "0177.0.0.1",
        "0x7f000001",
        "0X7F.0x0.0x0.0x1",
        "１２７.0.0.1",
        "127。0。0。1",
        "127．0．0．1",
        "①②⑦.0.0.1",
        "%31%32%37.%30.0.1",
        "127.0.0.1%2e",
        "[::1]",
        "[::]",
        "[0:0:0:0:0:0:0:1]",
        "[::127.0.0.1]",
        "[::ffff:127.0.0.1]",
        "[::FFFF:7F00:1]",
        "[::ffff:0:127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[64:ff9b:1::127.0.0.1]",
        "[2002:7f00:1::]",
        "[2001:0:7f00:1::80ff:fffe]",
        "[2606:4700::5efe:127.0.0.1]",
        "user@127.0.0.1",
        "push.example.net@127.0.0.1",
    ] {
        for text in [format!("https://{host}:{}/x", nobody.port), format!("http://{host}:{}/x", nobody.port)]
        {
            let attempt = send(&channel(false, &[&["127.0.0.1"]]), &text).await;
            assert_eq!(
                (attempt.outcome, attempt.cause),
                (Outcome::Failed, Cause::EndpointForbidden),
                "{text}"
            );
        }
    }
    for host in ["[fe80::1%25lo]", "[::1%lo]", "[::1", "127.0.0.1%00", "[127.0.0.1]", "0x100000000", "[::1]a"]
    {
        let attempt =
            send(&channel(false, &[&["127.0.0.1"]]), &format!("https://{host}:{}/x", nobody.port)).await;
        assert_eq!((attempt.outcome, attempt.cause), (Outcome::Failed, Cause::RecipientInvalid), "{host}");
    }
    nobody.came();
}

#[tokio::test]
async fn nothing_connects_to_a_name_that_leads_inside_in_any_form() {
    let nobody = Nobody::listening();
    for host in
        ["localhost", "LOCALHOST", "localhost.", "app.localhost", "router", "app.internal", "a.example.net"]
    {
        for answer in [
            &["127.0.0.1"][..],
            &["::1"],
            &["::ffff:127.0.0.1"],
            &["64:ff9b::7f00:1"],
            &["2002:7f00:1::"],
            &["0.0.0.0"],
            &["::"],
            &["127.0.0.1", "8.8.8.8"],
            &["8.8.8.8", "2606:4700::1111", "::1"],
        ] {
            let attempt =
                send(&channel(false, &[answer]), &format!("https://{host}:{}/x", nobody.port)).await;
            let forbidden = (Outcome::Failed, Cause::EndpointForbidden);
            assert_eq!((attempt.outcome, attempt.cause), forbidden, "{host} {answer:?}");
            assert!(!attempt.answered);
        }
    }
    nobody.came();
}

#[tokio::test]
async fn the_machines_own_resolver_leads_nowhere_inside() {
    let nobody = Nobody::listening();
    let channel = PushChannel::new(settings()).unwrap();
    for host in ["localhost", "LocalHost", "localhost.", "app.localhost"] {
        let attempt = send(&channel, &format!("https://{host}:{}/x", nobody.port)).await;
        // Not every resolver knows the last two.
        assert!(matches!(attempt.cause, Cause::EndpointForbidden | Cause::Dns), "{host}: {}", attempt.cause);
    }
    nobody.came();
}

#[tokio::test]
async fn what_is_connected_to_is_what_was_judged() {
    let (port, connections) = raw_server("").await;
    let script = Script::of(&[&["127.0.0.1"], &["192.0.2.1"]]);
    let settings = Settings { allow_private_endpoints: true, ..settings() };
    let channel = PushChannel::over(http::client_builder(), settings, script.clone()).unwrap();
    let attempt = send(&channel, &format!("http://push.example.net:{port}/x")).await;
    assert_eq!(attempt.cause, Cause::Reset, "it answers, and hangs up");
    assert_eq!(connections.load(std::sync::atomic::Ordering::SeqCst), 1);
    assert_eq!(script.left(), 1, "one look-up for the one connection");
}

#[tokio::test]
async fn no_header_of_an_answer_leads_anywhere() {
    let nobody = Nobody::listening();
    let there = format!("127.0.0.1:{}", nobody.port);
    let server = MockServer::start().await;
    for (status, expected) in [
        (201, Cause::Accepted),
        (300, Cause::EndpointForbidden),
        (301, Cause::EndpointForbidden),
        (302, Cause::EndpointForbidden),
        (303, Cause::EndpointForbidden),
        (304, Cause::EndpointForbidden),
        (305, Cause::EndpointForbidden),
        (307, Cause::EndpointForbidden),
        (308, Cause::EndpointForbidden),
        (407, Cause::UnexpectedAnswer),
        (421, Cause::UnexpectedAnswer),
        (503, Cause::Unavailable),
    ] {
        let answer = ResponseTemplate::new(status)
            .insert_header("location", format!("http://{there}/x"))
            .insert_header("content-location", format!("http://{there}/x"))
            .insert_header("refresh", format!("0; url=http://{there}/x"))
            .insert_header("alt-svc", format!("h2=\"{there}\"; ma=86400, http/1.1=\"{there}\""))
            .insert_header("link", format!("<http://{there}/x>; rel=preload"))
            .insert_header("proxy-authenticate", "Basic")
            .insert_header("set-cookie", "session=1; Path=/");
        server.reset().await;
        Mock::given(any()).respond_with(answer).mount(&server).await;
        let channel = channel(true, &[]);
        for _again in 0..2 {
            assert_eq!(send(&channel, &format!("{}/x", server.uri())).await.cause, expected, "{status}");
        }
        let requests = server.received_requests().await.unwrap();
        assert_eq!(requests.len(), 2, "{status}");
        assert!(requests.iter().all(|request| !request.headers.contains_key("cookie")), "{status}");
    }
    nobody.came();
}

#[tokio::test]
async fn a_connection_serves_the_one_origin_that_it_was_made_for() {
    let (port, connections) = raw_server("HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n").await;
    let channel = channel(true, &[&["127.0.0.1"], &["127.0.0.1"], &["10.255.255.255"]]);
    for (host, count) in
        [("a.example.net", 1), ("b.example.net", 2), ("a.example.net", 2), ("b.example.net", 2)]
    {
        let attempt = send(&channel, &format!("http://{host}:{port}/x")).await;
        assert_eq!(attempt.cause, Cause::Accepted);
        assert_eq!(connections.load(std::sync::atomic::Ordering::SeqCst), count, "{host}");
    }
}

/// Speaks HTTP/2 by hand: answers the first request with a 200 and data without end, whatever the windows,
/// until it is cut off. What the client said before its first answer.
async fn overflowing(mut stream: TcpStream) -> Vec<u8> {
    const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
    // `:status: 200` of the static table (RFC 7541, A), the end of the headers.
    const HEADERS: &[u8] = &[0, 0, 1, 1, 4, 0, 0, 0, 1, 0x88];
    const DATA: &[u8] = &[0, 0x40, 0, 0, 0, 0, 0, 0, 1];
    stream.write_all(SETTINGS).await.unwrap();
    let mut said = Vec::new();
    while !said.windows(9).any(|frame| frame[3] == 1 && frame[5..] == [0, 0, 0, 1]) {
        assert_ne!(stream.read_buf(&mut said).await.unwrap(), 0, "it hung up before it asked");
    }
    let (mut read, mut write) = stream.into_split();
    // What the client says now is thrown away, so that it is not what holds the answer up.
    let reader = tokio::spawn(async move { tokio::io::copy(&mut read, &mut tokio::io::sink()).await });
    write.write_all(HEADERS).await.unwrap();
    let frame = [DATA, &[b' '; 0x4000]].concat();
    while write.write_all(&frame).await.is_ok() {}
    reader.abort();
    said
}

#[tokio::test]
async fn an_http_2_peer_is_allowed_little_and_one_that_takes_more_is_cut_off_when_idle() {
    let listener = crate::http::hostile::listen();
    let port = listener.local_addr().unwrap().port();
    let peer = tokio::spawn(async move { overflowing(listener.accept().await.unwrap().0).await });
    let settings = Settings { allow_private_endpoints: true, ..settings() };
    let builder =
        http::client_builder().http2_prior_knowledge().pool_idle_timeout(Duration::from_millis(100));
    let channel = PushChannel::over(builder, settings, Script::of(&[])).unwrap();

    let attempt = send(&channel, &format!("http://127.0.0.1:{port}/x")).await;

    assert_eq!(attempt.cause, Cause::Accepted, "its status came first");
    let said = peer.await.unwrap();
    let says = |frame: &[u8]| said.windows(frame.len()).any(|bytes| bytes == frame);
    assert!(says(&[0, 2, 0, 0, 0, 0]), "no server push");
    assert!(says(&[0, 4, 0, 1, 0, 0]), "64 KiB of one answer");
    let more = [&[0, 0, 4, 8, 0, 0, 0, 0, 0][..], &(4 * 65_536_u32 - 65_535).to_be_bytes()].concat();
    assert!(says(&more), "256 KiB of all answers");
}
