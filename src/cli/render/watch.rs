//! `render --watch`: one envelope as its reader will see it, on a page that follows each save.
//!
//! Owns the watching of the files and the page's server. Everything is loaded and rendered anew each time, as a
//! start of the worker would, so that what the page tells is what the worker would say. How a
//! message is shown is the sandbox's, so that both pages show it alike.

use std::convert::Infallible;
use std::future::Future;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use axum::Router;
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures_util::{Stream, stream};
use notify::event::EventKind;
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};

use super::{Medium, RenderArgs, explain, medium, parse, payload, read};
use crate::cli::run::Signals;
use crate::cli::{Failure, library, runtime};
use crate::config::Rendering;
use crate::sandbox::desk::files::{File, page};

/// An editor saves in several steps: what it does within this time is one save.
const SAVE: Duration = Duration::from_millis(50);
const FILES: [File; 3] = [
    File::html("/", include_str!("preview/index.html")),
    File::css("/preview.css", include_str!("preview/preview.css")),
    File::js("/preview.js", include_str!("preview/preview.js")),
];

/// Serves the page until it is stopped.
///
/// # Errors
/// The port is taken, a path cannot be watched, or the envelope is to come from standard input.
pub(super) fn run(
    args: &RenderArgs,
    directory: &Path,
    rendering: Rendering,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    if args.file == Path::new("-") {
        bail!("--watch needs a file, since standard input is read but once");
    }
    let rendering = Rendering { templates_dir: Some(directory.to_owned()), ..rendering };
    let runtime = runtime()?;
    let served = runtime.block_on(async {
        let signals = Signals::listen().context("signals cannot be received")?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
        let listener = TcpListener::bind(address).await.with_context(|| {
            format!("the page cannot be served on {address}: choose another port with --port")
        })?;
        let preview = Preview { args: args.clone(), rendering };
        writeln!(out, "http://{} shows {}", listener.local_addr()?, args.file.display())?;
        serve(preview, listener, signals.next()).await
    });
    runtime.shutdown_background();
    served
}

/// What is shown, and what it is made from.
#[derive(Debug, Clone)]
struct Preview {
    args: RenderArgs,
    rendering: Rendering,
}

impl Preview {
    /// The message as the page wants it, or everything that is in its way.
    fn state(&self) -> Value {
        match self.message() {
            Ok(message) => json!({"message": message}),
            Err(Failure::Configuration(problems)) => json!({"problems": problems}),
            Err(Failure::Other(error)) => json!({"problems": [format!("{error:#}")]}),
        }
    }

    fn message(&self) -> Result<Value, Failure> {
        let library = library(self.rendering.clone())?;
        let envelope = parse(&read(&self.args.file)?)?;
        match medium(&self.args, &envelope)? {
            Medium::Email => {
                let mail = library.current().mail(&envelope).map_err(explain)?;
                let unsubscribe = format!("<{}>", mail.unsubscribe);
                Ok(json!({
                    "kind": "mail", "subject": mail.subject, "html": mail.html, "text": mail.text,
                    "headers": [["List-Unsubscribe", unsubscribe]],
                }))
            }
            Medium::Push => {
                let mut message = payload(&envelope, &library)?;
                message["kind"] = "push".into();
                Ok(message)
            }
        }
    }

    /// The template directory, and the folder of the envelope: editors replace a file instead of writing it.
    fn paths(&self) -> impl Iterator<Item = (PathBuf, RecursiveMode)> {
        let folder = self.args.file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).to_owned();
        let templates = self.rendering.templates_dir.clone().map(|path| (path, RecursiveMode::Recursive));
        templates.into_iter().chain([(folder, RecursiveMode::NonRecursive)])
    }
}

/// Serves the page and renders anew at each save, until `stop`.
async fn serve(
    preview: Preview,
    listener: TcpListener,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let saved = Arc::new(Notify::new());
    // Held as long as it is to watch.
    let _watcher = watcher(&preview, saved.clone())?;
    let states = watch::Sender::new(preview.state());
    let port = listener.local_addr()?.port();
    let events = Router::new().route("/events", get(events)).with_state(states.clone());
    let files = page(events, &FILES, port);
    tokio::select! {
        served = axum::serve(listener, files) => Ok(served?),
        rendered = render_at_saves(preview, saved, states) => rendered,
        () = stop => Ok(()),
    }
}

async fn render_at_saves(
    preview: Preview,
    saved: Arc<Notify>,
    states: watch::Sender<Value>,
) -> anyhow::Result<()> {
    loop {
        saved.notified().await;
        tokio::time::sleep(SAVE).await;
        let preview = preview.clone();
        let state =
            tokio::task::spawn_blocking(move || preview.state()).await.context("rendering panicked")?;
        states.send_replace(state);
    }
}

fn watcher(preview: &Preview, saved: Arc<Notify>) -> anyhow::Result<RecommendedWatcher> {
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // What rendering itself does to the files is to read them. An error may hide a save.
        if event.map_or(true, |event| !matches!(event.kind, EventKind::Access(_))) {
            saved.notify_one();
        }
    })
    .context("files cannot be watched")?;
    for (path, mode) in preview.paths() {
        watcher.watch(&path, mode).with_context(|| format!("{} cannot be watched", path.display()))?;
    }
    Ok(watcher)
}

/// The state, and then each next one.
async fn events(State(states): State<watch::Sender<Value>>) -> Response {
    let mut states = states.subscribe();
    states.mark_changed();
    Sse::new(follow(states)).keep_alive(KeepAlive::default()).into_response()
}

fn follow(states: watch::Receiver<Value>) -> impl Stream<Item = Result<Event, Infallible>> {
    stream::unfold(states, |mut states| async {
        states.changed().await.ok()?;
        let event = Event::default().data(states.borrow_and_update().to_string());
        Some((Ok(event), states))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tokio::sync::oneshot;

    use super::*;
    use crate::http::client_builder;

    const ENVELOPE: &str = include_str!("../../../templates/resurface-nudge.v1/example.json");

    struct Desk {
        folder: tempfile::TempDir,
        address: SocketAddr,
        _stop: oneshot::Sender<()>,
    }

    impl Desk {
        async fn new() -> Desk {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("envelope.json");
            fs::write(&file, ENVELOPE).unwrap();
            let templates = folder.path().join("templates");
            fs::create_dir_all(templates.join("resurface-nudge.v1")).unwrap();
            let rendering = Rendering {
                app_origin: "https://app.test".parse().unwrap(),
                unsubscribe_path: "/unsubscribe".to_owned(),
                templates_dir: Some(templates.clone()),
            };
            let args = RenderArgs { file, channel: None, format: None, watch: Some(templates), port: 0 };
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let (stop, stopped) = oneshot::channel::<()>();
            let stopped = async { stopped.await.unwrap_or_default() };
            tokio::spawn(serve(Preview { args, rendering }, listener, stopped));
            Desk { folder, address, _stop: stop }
        }

        fn subject(&self, text: &str) {
            let file = self.folder.path().join("templates/resurface-nudge.v1/email.subject.hbs");
            fs::write(file, text).unwrap();
        }

        async fn events(&self) -> reqwest::Response {
            let client = client_builder().build().unwrap();
            client.get(format!("http://{}/events", self.address)).send().await.unwrap()
        }
    }

    async fn next(events: &mut reqwest::Response) -> Value {
        let chunk = events.chunk().await.unwrap().expect("the stream goes on");
        let text = String::from_utf8(chunk.to_vec()).unwrap();
        serde_json::from_str(text.strip_prefix("data: ").unwrap().trim()).unwrap()
    }

    async fn next_that(events: &mut reqwest::Response, is: impl Fn(&Value) -> bool) -> Value {
        loop {
            let state = next(events).await;
            if is(&state) {
                return state;
            }
        }
    }

    #[tokio::test]
    async fn each_save_is_shown_and_a_broken_template_by_file_and_line_until_it_is_mended() {
        let desk = Desk::new().await;
        let mut events = desk.events().await;
        assert_eq!(next(&mut events).await["message"]["subject"], "Worth returning to: “Practice Rooms”");
        desk.subject("Anew");
        next_that(&mut events, |state| state["message"]["subject"] == "Anew").await;
        desk.subject("Anew {{#if");
        let state = next_that(&mut events, |state| state["problems"].is_array()).await;
        let problem = state["problems"][0].as_str().unwrap();
        assert!(
            problem.contains("resurface-nudge.v1/email.subject.hbs") && problem.contains('1'),
            "{problem}"
        );
        desk.subject("Mended");
        next_that(&mut events, |state| state["message"]["subject"] == "Mended").await;
        let envelope = desk.folder.path().join("envelope.json");
        fs::write(&envelope, ENVELOPE.replace("\"highlight_count\"", "\"count\"")).unwrap();
        let state = next_that(&mut events, |state| state["problems"].is_array()).await;
        assert!(state["problems"][0].as_str().unwrap().contains("highlight_count"), "{state}");
    }

    #[tokio::test]
    async fn the_page_is_whole_and_another_name_of_this_machine_reads_nothing() {
        let desk = Desk::new().await;
        let client = client_builder().build().unwrap();
        let base = format!("http://{}", desk.address);
        let page = client.get(&base).send().await.unwrap();
        assert!(
            page.headers()["content-security-policy"].to_str().unwrap().starts_with("default-src 'none'")
        );
        for path in ["/preview.js", "/preview.css"] {
            assert_eq!(client.get(format!("{base}{path}")).send().await.unwrap().status(), 200);
        }
        let events = client.get(format!("{base}/events")).header("host", "evil.test").send().await.unwrap();
        assert_eq!(events.status(), 403);
    }
}
