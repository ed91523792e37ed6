//! The program before peers that answer without end: it takes what its caps allow, says so, and delivers
//! everything once they are well.

use delivery_worker::outcome::AckStatus;
use delivery_worker::sandbox::Server;
use delivery_worker::sandbox::examples::{digest, nudge};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::harness::{Program, Stage, says, text, within};

const MIB: u64 = 1024 * 1024;
/// The longest page that is read (16 MiB), for each of two lanes: once as it is, and twice while the buffer
/// that it grows in moves to one of double the size. Bodies of providers, 64 KiB each, are no matter beside it.
const PAGES: u64 = 2 * 3 * 16 * MIB;
/// Code, templates, certificates and threads of a worker that has nothing to do, generously: a debug build
/// takes about half of it.
const AT_REST: u64 = 64 * MIB;
/// A GiB that is taken whole, or the bomb unpacked, would be several times what is allowed.
const BOUND: u64 = PAGES + AT_REST;

/// The head of a gzip stream whose one deflate block gives the codes `0` to "the last byte 258 times" and to
/// "at distance 1" (RFC 1951, 3.2.7): each zero byte after it is four such pairs, 1032 bytes.
const BOMB_HEAD: &[u8] =
    b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xec\xc1\x01\x01\x00\x00\x00\x80\x90\xfe\xaf\xee\x08\x0a";
/// With so many it is 516 MiB, of half a MiB.
const BOMB_TAIL: usize = 512 * 1024;

/// One answer: what is written once, and then again until the worker hangs up.
struct Answer {
    head: Vec<u8>,
    again: Vec<u8>,
}

/// A GiB that is announced, one in chunks, one that ends with the connection, and the bomb.
fn answers(status: &str) -> [Answer; 4] {
    let answer = |headers: &str, body: &[u8], again: &[u8]| {
        let head = format!("HTTP/1.1 {status}\r\n{headers}\r\n");
        Answer { head: [head.as_bytes(), body].concat(), again: again.to_vec() }
    };
    let blanks = vec![b' '; 64 * 1024];
    let chunk = [b"10000\r\n", &blanks[..], b"\r\n"].concat();
    let bomb = [BOMB_HEAD, &vec![0; BOMB_TAIL]].concat();
    let packed = format!("connection: close\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n", bomb.len());
    [
        answer("content-length: 1073741824\r\n", b"", &blanks),
        answer("transfer-encoding: chunked\r\n", b"", &chunk),
        answer("", b"", &blanks),
        answer(&packed, &bomb, b""),
    ]
}

/// Takes the place of `server` for as many requests as there are answers, then gives it back.
async fn besiege(server: &Server, listener: TcpListener, answers: [Answer; 4]) {
    let mut connections = JoinSet::new();
    for answer in answers {
        let (stream, _) = within(listener.accept(), || "too few requests came".to_owned()).await.unwrap();
        connections.spawn(flood(stream, answer));
    }
    within(connections.join_all(), || "it reads on and on".to_owned()).await;
    drop(listener);
    server.restart().await.unwrap();
}

/// Stops `server` and listens where it was.
async fn instead_of(server: &Server) -> TcpListener {
    server.stop().await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind(server.url().strip_prefix("http://").unwrap().parse().unwrap()).unwrap();
    socket.listen(64).unwrap()
}

/// Answers the request and ends when the worker has hung up.
async fn flood(mut stream: TcpStream, answer: Answer) {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0, "a connection without a request");
    }
    let mut taken = stream.write_all(&answer.head).await;
    while taken.is_ok() && !answer.again.is_empty() {
        taken = stream.write_all(&answer.again).await;
    }
    // To the end of the request: to hang up on it first could take the answer back (RFC 9112, 9.6).
    while stream.read_buf(&mut request).await.is_ok_and(|bytes| bytes > 0) {}
}

/// How often a log line of `message` has `word` in `field`.
fn told(program: &Program, message: &str, field: &str, word: &str) -> usize {
    program.log(|line: &Value| says(message)(line) && text(line, field) == word).len()
}

#[tokio::test]
async fn answers_without_end_from_every_side_cost_a_bounded_memory_and_no_message() {
    let stage = Stage::new().await;
    for id in ["mail-1", "mail-2", "mail-3", "mail-4"] {
        stage.seam.enqueue(digest(id, &format!("{id}@example.com")));
    }
    for id in ["push-1", "push-2", "push-3", "push-4"] {
        stage.seam.enqueue(nudge(id, &stage.push.subscribe().unwrap()));
    }
    let [seam, resend, push] = [stage.seam.server(), stage.resend.server(), stage.push.server()];
    let [at_seam, at_resend, at_push] =
        [instead_of(seam).await, instead_of(resend).await, instead_of(push).await];
    let program = stage.run().await;
    tokio::join!(
        besiege(seam, at_seam, answers("200 OK")),
        besiege(resend, at_resend, answers("200 OK")),
        besiege(push, at_push, answers("503 Service Unavailable")),
    );

    let acks =
        stage.acked(["mail-1", "mail-2", "mail-3", "mail-4", "push-1", "push-2", "push-3", "push-4"]).await;
    assert!(acks.iter().all(|ack| ack.posted == AckStatus::Delivered), "{acks:?}");
    let log = stage.journal.log();
    assert_eq!((log.mails().count(), log.pushes().count()), (4, 4));

    assert_eq!(told(&program, "poll failed", "error", "too_large"), 3);
    assert_eq!(told(&program, "poll failed", "error", "unreadable"), 1, "a bomb is not unpacked");
    assert_eq!(told(&program, "attempt", "cause", "unreadable_answer"), 4);
    assert_eq!(told(&program, "attempt", "cause", "unavailable"), 4);
    if let Some(peak) = program.peak_memory() {
        assert!(peak < BOUND, "{} MiB were held, and {} are allowed", peak / MIB, BOUND / MIB);
    }
}
