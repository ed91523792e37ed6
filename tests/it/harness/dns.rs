//! A name server that knows what a test tells it, and nothing else.

use std::net::SocketAddr;
use std::sync::Arc;

use hickory_resolver::proto::op::{Message, OpCode, ResponseCode};
use hickory_resolver::proto::rr::rdata::{MX, TXT};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use tokio::net::UdpSocket;

/// What it is asked for, and what it then tells.
pub(crate) type Zone = Vec<(&'static str, RData)>;

/// Records that let Resend send for the domain of the sandbox's MAIL_FROM.
pub(crate) fn good() -> Zone {
    vec![
        ("resend._domainkey.mail.example.com", txt("p=MIGfMA0GCSqGSIb3DQEB")),
        ("send.mail.example.com", txt("v=spf1 include:amazonses.com ~all")),
        ("send.mail.example.com", mx("feedback-smtp.eu-west-1.amazonses.com")),
        ("_dmarc.example.com", txt("v=DMARC1; p=reject")),
    ]
}

pub(crate) fn txt(text: &str) -> RData {
    RData::TXT(TXT::new(vec![text.to_owned()]))
}

pub(crate) fn mx(exchange: &str) -> RData {
    RData::MX(MX::new(10, Name::from_ascii(format!("{exchange}.")).unwrap()))
}

/// Starts it; it ends with the test's runtime.
pub(crate) async fn name_server(zone: Zone) -> SocketAddr {
    let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut buffer = [0; 4096];
        while let Ok((length, asker)) = socket.recv_from(&mut buffer).await {
            let Ok(question) = Message::from_vec(&buffer[..length]) else { continue };
            socket.send_to(&answer(&question, &zone), asker).await.unwrap();
        }
    });
    address
}

fn answer(question: &Message, zone: &Zone) -> Vec<u8> {
    let mut answer = Message::response(question.metadata.id, OpCode::Query);
    for query in &question.queries {
        answer.add_query(query.clone());
        let asked = query.name().to_ascii();
        let known = zone.iter().filter(|(name, _)| asked.trim_end_matches('.') == *name);
        let matching = known.clone().filter(|(_, data)| data.record_type() == query.query_type());
        answer.add_answers(
            matching.map(|(_, data)| Record::from_rdata(query.name().clone(), 60, data.clone())),
        );
        if known.count() == 0 {
            answer.metadata.response_code = ResponseCode::NXDomain;
        }
        assert!([RecordType::TXT, RecordType::MX].contains(&query.query_type()));
    }
    answer.to_vec().unwrap()
}
