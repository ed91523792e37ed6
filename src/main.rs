//! The binary: runs the command that it is asked for.

use std::process::ExitCode;

/// Rendering is small strings, made and dropped by the thousand on two threads: the system's allocator takes a quarter of the
/// CPU of a mail more.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    delivery_worker::cli::main(std::env::args_os()).into()
}
