//! The accept loop of the worker's own small servers.
//!
//! axum's own `serve` lets every client stay for as long as it likes, so the connections are driven here: each
//! answers one request, within a deadline, and only so many are open at once. It must not know what is served.

use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Each connection takes a file descriptor, of which the worker needs some to deliver: clients that are
/// slow, or many, must leave it enough.
pub const CONNECTIONS: usize = 32;
/// The longest head of a request.
pub const REQUEST_CAP: usize = 16 * 1024;
/// What `accept` can fail with beside a lost client is a lack of descriptors or memory: wait for some.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Serves each connection for at most `deadline`, but never more than [`CONNECTIONS`] at once: whoever comes then
/// waits until one of them ends.
pub async fn accept_all(listener: TcpListener, routes: Router, deadline: Duration) {
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = open.join_next() => {}
            accepted = listener.accept(), if open.len() < CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    open.spawn(timeout(deadline, answer(stream, routes.clone())));
                }
                Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await,
            }
        }
    }
}

/// Answers one request.
async fn answer(stream: TcpStream, routes: Router) {
    let routes = TowerToHyperService::new(routes);
    let served = http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(REQUEST_CAP)
        .serve_connection(TokioIo::new(stream), routes);
    // An error here is a client that went away, or one that speaks no HTTP.
    drop(served.await);
}
