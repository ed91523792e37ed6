//! Peers that mean harm, for the tests of every client: they answer as no honest server does, and tell
//! how much of it they could write before they were cut off.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;

/// What a peer writes once, and what it goes on to write for as long as the client takes it.
pub(crate) struct Flood {
    pub(crate) what: &'static str,
    pub(crate) head: &'static str,
    pub(crate) again: &'static str,
}

/// Answers without end whose status and headers are well-formed.
pub(crate) static BODIES: [Flood; 4] = [
    Flood {
        what: "a body of a GiB",
        head: "HTTP/1.1 200 OK\r\ncontent-length: 1073741824\r\n\r\n",
        again: "    ",
    },
    Flood {
        what: "chunks without end",
        head: "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        again: "40\r\n                                                                \r\n",
    },
    Flood { what: "a body that ends with the connection", head: "HTTP/1.1 200 OK\r\n\r\n", again: "    " },
    Flood {
        what: "what is said to be compressed",
        head: "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n",
        again: "\0\0\0\0",
    },
];

/// Answers whose status line or headers do not end.
pub(crate) static HEADS: [Flood; 4] = [
    Flood { what: "a status line without end", head: "HTTP/1.1 200 ", again: "long" },
    Flood { what: "a header without end", head: "HTTP/1.1 200 OK\r\nx-long: ", again: "long" },
    Flood { what: "headers without end", head: "HTTP/1.1 200 OK\r\n", again: "x-many: 1\r\n" },
    Flood { what: "no HTTP", head: "", again: "SSH-2.0-x\r\n" },
];

/// Answers that never get as far as a body, and take no memory: only the deadline ends them.
pub(crate) static PRELUDES: [Flood; 2] = [
    Flood { what: "interim answers without end", head: "", again: "HTTP/1.1 100 Continue\r\n\r\n" },
    Flood { what: "early hints without end", head: "", again: "HTTP/1.1 103 Early Hints\r\n\r\n" },
];

/// At least so much is written at a time, so that a GiB is a matter of seconds for whoever takes it.
const AT_ONCE: usize = 64 * 1024;
/// A slow peer's pause: far shorter than any deadline, so that no deadline between two bytes ends it.
const PAUSE: Duration = Duration::from_millis(5);
/// Above what is written to whoever reads nothing: what both sockets hold.
const IN_SOCKETS: usize = 4 * 1024 * 1024;

/// A peer on the loopback interface.
pub(crate) struct Peer {
    /// Its base URL.
    pub(crate) base: String,
    written: watch::Receiver<Option<usize>>,
}

impl Peer {
    /// Reads the head of each request and answers with `flood`, as fast as it is taken.
    pub(crate) async fn flooding(flood: &'static Flood) -> Peer {
        let again = flood.again.repeat(AT_ONCE.div_ceil(flood.again.len()));
        Peer::start(move |stream| write(stream, flood.head.into(), again.clone().into(), Duration::ZERO))
            .await
    }

    /// Reads the head of each request, answers with `head`, and then with one byte after the other.
    pub(crate) async fn trickling(head: &'static str) -> Peer {
        Peer::start(move |stream| write(stream, head.into(), b" ".to_vec(), PAUSE)).await
    }

    async fn start<F: Future<Output = usize> + Send>(
        answer: impl Fn(TcpStream) -> F + Send + Sync + Clone + 'static,
    ) -> Peer {
        let listener = listen();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let (tell, written) = watch::channel(None);
        let tell = Arc::new(tell);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (answer, tell) = (answer.clone(), tell.clone());
                tokio::spawn(async move {
                    let bytes = answer(stream).await;
                    tell.send_replace(Some(bytes));
                });
            }
        });
        Peer { base, written }
    }

    /// Waits until a connection is cut off, which took no more than `cap` bytes of the answer.
    pub(crate) async fn was_cut_at(&self, cap: usize, what: &str) {
        let mut written = self.written.clone();
        let bytes = written.wait_for(Option::is_some).await.unwrap().unwrap();
        assert!(bytes <= cap + IN_SOCKETS, "{what}: {bytes} bytes were taken");
    }
}

/// A listener whose connections hold little that nobody has taken yet.
pub(crate) fn listen() -> TcpListener {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_send_buffer_size(16 * 1024).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    socket.listen(64).unwrap()
}

/// Writes until the peer has gone; how many bytes it could.
async fn write(mut stream: TcpStream, head: Vec<u8>, again: Vec<u8>, pause: Duration) -> usize {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read_buf(&mut request).await {
            Ok(0) | Err(_) => return 0,
            Ok(_) => {}
        }
    }
    let mut written = 0;
    let mut next = head;
    while stream.write_all(&next).await.is_ok() {
        written += next.len();
        next.clone_from(&again);
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
    }
    written
}
