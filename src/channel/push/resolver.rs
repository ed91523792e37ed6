//! The resolver of the push client: it hands out addresses of the public internet or none.
//!
//! Owns [`Guard`]. A name is looked up once, and what was judged is what is connected to, so that DNS
//! cannot change its mind in between. It must not know an endpoint.

use std::error::Error;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::address::is_public;

/// Whoever knows the addresses of a name.
#[async_trait]
pub(super) trait Lookup: Send + Sync + 'static {
    /// The addresses of `name`, in the order in which to try them.
    ///
    /// # Errors
    /// The name does not resolve.
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// The machine's own resolver.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SystemLookup;

#[async_trait]
impl Lookup for SystemLookup {
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect())
    }
}

/// A name led to an address that is not public.
#[derive(Debug, thiserror::Error)]
#[error("the name resolves to an address that is not public")]
pub(super) struct ForbiddenAddress;

impl ForbiddenAddress {
    /// Whether this is why `error` happened.
    pub(super) fn is_behind(error: &(dyn Error + 'static)) -> bool {
        std::iter::successors(Some(error), |error| (*error).source())
            .any(|error| error.is::<ForbiddenAddress>())
    }
}

/// Lets public addresses through.
///
/// One address that is not public forbids the whole answer. Nobody's honest name has both kinds: such an
/// answer is an attack or a broken resolver, and picking the good ones would make the outcome depend on
/// the order of the answer.
#[derive(Clone)]
pub(super) struct Guard {
    lookup: Arc<dyn Lookup>,
    allow_private: bool,
}

impl Guard {
    /// Guards `lookup`; with `allow_private` every address passes.
    pub(super) fn new(lookup: Arc<dyn Lookup>, allow_private: bool) -> Guard {
        Guard { lookup, allow_private }
    }
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let Guard { lookup, allow_private } = self.clone();
        Box::pin(async move {
            let addresses = lookup.addresses(name.as_str()).await?;
            if addresses.is_empty() {
                return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address").into());
            }
            if !allow_private && !addresses.iter().copied().all(is_public) {
                return Err(ForbiddenAddress.into());
            }
            // The client puts the endpoint's own port in.
            let addresses = addresses.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(addresses) as Addrs)
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;

    use super::*;

    /// Answers what it is told, in turn; after the last answer, nothing resolves.
    #[derive(Default)]
    pub(in crate::channel::push) struct Script(Mutex<VecDeque<Vec<IpAddr>>>);

    impl Script {
        pub(in crate::channel::push) fn of(answers: &[&[&str]]) -> Arc<Script> {
            let read = |answer: &&[&str]| answer.iter().map(|ip| ip.parse().unwrap()).collect();
            Arc::new(Script(Mutex::new(answers.iter().map(read).collect())))
        }

        pub(in crate::channel::push) fn left(&self) -> usize {
            self.0.lock().unwrap().len()
        }
    }

    #[async_trait]
    impl Lookup for Script {
        async fn addresses(&self, _name: &str) -> io::Result<Vec<IpAddr>> {
            self.0.lock().unwrap().pop_front().ok_or_else(|| io::Error::other("no such name"))
        }
    }

    async fn resolve(guard: &Guard) -> Result<Vec<String>, Box<dyn Error + Send + Sync>> {
        let addresses = guard.resolve("push.example.net".parse().unwrap()).await?;
        Ok(addresses.map(|address| address.ip().to_string()).collect())
    }

    #[tokio::test]
    async fn a_name_that_changes_its_mind_is_judged_at_each_answer() {
        let script = Script::of(&[
            &["8.8.8.8", "2606:4700::1111"],
            &["127.0.0.1"],
            &["8.8.8.8", "10.0.0.1"],
            &["1.1.1.1"],
        ]);
        let guard = Guard::new(script.clone(), false);
        assert_eq!(resolve(&guard).await.unwrap(), ["8.8.8.8", "2606:4700::1111"]);
        assert!(ForbiddenAddress::is_behind(&*resolve(&guard).await.unwrap_err()));
        assert!(ForbiddenAddress::is_behind(&*resolve(&guard).await.unwrap_err()), "one of two is enough");
        assert_eq!(resolve(&guard).await.unwrap(), ["1.1.1.1"]);
        for _nothing in ["an empty answer", "no answer"] {
            assert!(!ForbiddenAddress::is_behind(&*resolve(&guard).await.unwrap_err()));
        }
        assert_eq!(script.left(), 0);
    }

    #[tokio::test]
    async fn private_addresses_pass_where_they_are_allowed() {
        let guard = Guard::new(Script::of(&[&["127.0.0.1"]]), true);
        assert_eq!(resolve(&guard).await.unwrap(), ["127.0.0.1"]);
    }

    #[tokio::test]
    async fn the_machine_knows_its_own_name_and_the_guard_refuses_it() {
        let guard = Guard::new(Arc::new(SystemLookup), false);
        let localhost = guard.resolve("localhost".parse().unwrap()).await;
        assert!(localhost.is_err_and(|error| ForbiddenAddress::is_behind(&*error)));
    }
}
