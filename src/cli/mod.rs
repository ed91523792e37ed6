//! One file per command.

pub mod render;
