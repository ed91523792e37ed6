//! One stand-in's HTTP server on the loopback interface: it can hang up on a request, stop and come back.
//!
//! Owns the listening socket and the connections. It must not know what is served.
//!
//! axum's own `serve` answers every request that it reads. A stand-in must also be able to end the
//! connection without a byte, so the connections are driven here and [`HangUp`] in an answer ends one.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::http::Response;
use axum::response::IntoResponse;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

/// What `accept` can fail with beside a lost peer is a lack of descriptors or memory: wait for some.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// An answer that bears this extension is not sent: the connection ends instead.
#[derive(Debug, Clone, Copy)]
pub(super) struct HangUp;

impl IntoResponse for HangUp {
    fn into_response(self) -> axum::response::Response {
        let mut response = ().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

#[derive(Debug, thiserror::Error)]
#[error("hung up as asked")]
struct HungUp;

/// A running server. Dropping it closes the socket and every connection.
#[derive(Debug)]
pub struct Server {
    addr: SocketAddr,
    router: Router,
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Server {
    /// Takes a port on 127.0.0.1; 0 is any free one.
    pub(super) async fn bind(port: u16) -> io::Result<TcpListener> {
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await
    }

    /// Serves `router` on `listener`.
    pub(super) fn start(listener: TcpListener, router: Router) -> io::Result<Server> {
        let addr = listener.local_addr()?;
        let running = Mutex::new(Some(Running::start(listener, router.clone())));
        Ok(Server { addr, router, running })
    }

    /// The base URL, without a trailing slash.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Refuses connections from now on, and cuts those that are open.
    pub async fn stop(&self) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Running { stop, task }) = running {
            drop(stop);
            // The task ends only so; a panic in it would have nothing left to stop.
            drop(task.await);
        }
    }

    /// Serves again on the same port after [`Server::stop`]; what was stored is still there.
    ///
    /// # Errors
    /// The port has gone to somebody else meanwhile.
    pub async fn restart(&self) -> io::Result<()> {
        self.stop().await;
        let listener = Server::bind(self.addr.port()).await?;
        let running = Running::start(listener, self.router.clone());
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(running);
        Ok(())
    }
}

impl Running {
    fn start(listener: TcpListener, router: Router) -> Running {
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(accept_all(listener, router, stopped));
        Running { stop, task }
    }
}

async fn accept_all(listener: TcpListener, router: Router, mut stopped: oneshot::Receiver<()>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            // Resolves when the sender is dropped, too.
            _ = &mut stopped => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve(stream, router.clone()));
                }
                Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await,
            }
        }
    }
    drop(listener);
    connections.shutdown().await;
}

async fn serve(stream: TcpStream, router: Router) {
    let service = TowerToHyperService::new(router);
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let answer = service.call(request);
        async move {
            match answer.await {
                Ok(response) => keep_or_hang_up(response),
                Err(never) => match never {},
            }
        }
    });
    // An error here is a client that went away, or a hang-up that was asked for.
    drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
}

fn keep_or_hang_up<B>(response: Response<B>) -> Result<Response<B>, HungUp> {
    match response.extensions().get::<HangUp>() {
        Some(_) => Err(HungUp),
        None => Ok(response),
    }
}
