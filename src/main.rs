//! The binary: runs the command that it is asked for.

use std::process::ExitCode;

fn main() -> ExitCode {
    delivery_worker::cli::main(std::env::args_os()).into()
}
