//! How the binary is linked.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let target = |what: &str| std::env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    if target("OS") == "linux" && target("ENV") == "gnu" {
        // Relocations in a tenth of the room (glibc 2.36): the megabyte that they take else is read, and held, at each
        // start. A linker that does not know it warns and goes on.
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}
