//! The engine as a whole, between a seam and channels in memory, in virtual time.
//!
//! `world` is what tests are built on: it puts a worker between an `outbox` and a `carrier` per lane.
//! Each other file holds the claims of one part of the design.

mod acks;
mod carrier;
mod clock;
mod confirm;
mod drain;
mod lifetime;
mod many;
mod order;
mod outage;
mod outbox;
mod pages;
mod pauses;
mod pulse;
mod stop;
mod storm;
mod troubles;
mod window;
mod world;
