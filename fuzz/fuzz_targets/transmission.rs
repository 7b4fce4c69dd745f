//! Any requests against any export: what is accepted must lie inside it, be aligned and within the payload
//! limit; what is refused must deserve it.
#![no_main]

use evenkeel_fuzz::check;
use evenkeel_nbd::client::{SimpleReply, encode_request};
use evenkeel_nbd::wire::Reader;
use evenkeel_nbd::{BlockSizes, ErrorCode, Export, RequestHeader, TransmissionFlags, simple_reply};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut reader = Reader::new(data);
    let Some(export) = export(&mut reader) else { return };
    while let Some(bytes) = reader.bytes(RequestHeader::LEN) {
        let mut bytes: [u8; RequestHeader::LEN] = bytes.try_into().expect("28 bytes");
        let genuine = bytes[..4] == [0x25, 0x60, 0x95, 0x13];
        assert_eq!(RequestHeader::decode(&bytes).is_some(), genuine);
        bytes[..4].copy_from_slice(&[0x25, 0x60, 0x95, 0x13]);
        let request = RequestHeader::decode(&bytes).expect("the magic is right");
        assert_eq!(encode_request(&request), bytes);
        check(&request, &export);
        let error = ErrorCode::from_wire(request.length);
        let reply = SimpleReply::decode(&simple_reply(error, request.cookie)).expect("the magic is right");
        assert_eq!((ErrorCode::from_wire(reply.error), reply.cookie), (error, request.cookie));
    }
});

/// Sizes that break the rules of the document, too: a configuration may be wrong.
fn export(reader: &mut Reader<'_>) -> Option<Export> {
    let flags = TransmissionFlags(reader.u16()?);
    let size = reader.u64()?;
    let (minimum, preferred, maximum) = (reader.u32()?, reader.u32()?, reader.u32()?);
    let block_sizes = BlockSizes { minimum, preferred, maximum };
    let export = Export { size, flags, block_sizes, description: String::new() };
    let _ = export.validate();
    assert_eq!(flags.offered().offered(), flags.offered());
    Some(export)
}
