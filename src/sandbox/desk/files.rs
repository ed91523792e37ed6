//! The files of a page, and who may ask for them.
//!
//! Owns the parts that every page with a message on it has. All of them are compiled in: a page asks for nothing
//! from elsewhere. It must not know what a page is about.

use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use axum::{Router, middleware};

use super::guard::{self, Guard};

/// A path of a page, and what is there.
pub struct File {
    path: &'static str,
    kind: &'static str,
    content: &'static str,
}

impl File {
    /// A page of its own.
    pub const fn html(path: &'static str, content: &'static str) -> File {
        File { path, kind: "text/html; charset=utf-8", content }
    }

    /// A style sheet.
    pub const fn css(path: &'static str, content: &'static str) -> File {
        File { path, kind: "text/css; charset=utf-8", content }
    }

    /// A module of script.
    pub const fn js(path: &'static str, content: &'static str) -> File {
        File { path, kind: "text/javascript; charset=utf-8", content }
    }
}

/// What shows a message: a page puts it to use with `messageView` of `/message.js`.
const SHARED: [File; 4] = [
    File::css("/base.css", include_str!("page/base.css")),
    File::css("/message.css", include_str!("page/message.css")),
    File::js("/dom.js", include_str!("page/dom.js")),
    File::js("/message.js", include_str!("page/message.js")),
];

/// Adds the page's `own` files and the shared ones to `routes`, and lets only this machine's user at any of them.
/// `port` is the one that the page is served on.
pub fn page(routes: Router, own: &'static [File], port: u16) -> Router {
    let files = SHARED.iter().chain(own);
    let routes = files.fold(routes, |routes, File { path, kind, content }| {
        routes.route(path, get(move || async move { ([(CONTENT_TYPE, *kind)], *content) }))
    });
    routes.layer(middleware::from_fn_with_state(Guard::new(port), guard::stand))
}

#[cfg(test)]
pub(super) fn shared_contents() -> impl Iterator<Item = (&'static str, &'static str)> {
    contents(&SHARED)
}

#[cfg(test)]
pub(super) fn contents(files: &'static [File]) -> impl Iterator<Item = (&'static str, &'static str)> {
    files.iter().map(|file| (file.path, file.content))
}
