//! The templates that ship, and what no template may do, by rendering.

use super::*;

fn links() -> Links {
    Links::new(&Url::parse("https://app.test").unwrap(), "/api/app/comms/unsubscribe").unwrap()
}

#[test]
fn scratch() {
    let library = Library::load(None, links()).unwrap_or_else(|e| panic!("{e}"));
    for name in ["your-week-digest.v1", "resurface-nudge.v1"] {
        let text = std::fs::read_to_string(format!("templates/{name}/example.json")).unwrap();
        let crate::envelope::Reading::Envelope(e) = crate::envelope::read(&text) else { panic!() };
        let m = library.current().mail(&e).unwrap();
        let n = library.current().notification(&e).unwrap();
        println!("{}\n{}\n\n{}\n{}\n{}\n", m.subject, m.text, n.title, n.body, n.url);
        std::fs::write(format!("/tmp/{name}.html"), &m.html).unwrap();
    }
}
