//! What clients and servers of Redis' protocol send, without the crate that the server uses.

/// Returns a command as clients send it.
pub fn packed(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Returns the length of the answers that `bytes` begin with, each of them whole; how many bytes are left tells whether all
/// were.
pub fn whole(bytes: &[u8]) -> usize {
    let mut end = 0;
    while let Some(length) = answer(&bytes[end..]) {
        end += length;
    }
    end
}

/// Returns the length of the answer that `bytes` begin with; `None` if it isn't one.
fn answer(bytes: &[u8]) -> Option<usize> {
    let mut end = 0;
    let mut due: u64 = 1;
    while due > 0 {
        let rest = bytes.get(end..)?;
        let line = rest.windows(2).position(|pair| pair == b"\r\n")?;
        let (kind, said) = (*rest.first()?, std::str::from_utf8(rest.get(1..line)?));
        end += line + 2;
        due -= 1;
        match kind {
            b'+' | b'-' if rest[..line].iter().all(|byte| *byte != b'\n') => {}
            b':' | b'(' => drop(said.ok()?.parse::<i128>().ok()?),
            b',' => drop(said.ok()?.parse::<f64>().ok()?),
            b'#' if matches!(said, Ok("t" | "f")) => {}
            b'_' if said == Ok("") => {}
            b'$' | b'*' if said == Ok("-1") => {}
            b'$' | b'!' | b'=' => {
                end = end.checked_add(said.ok()?.parse().ok()?)?;
                match bytes.get(end..)? {
                    [b'\r', b'\n', ..] => end += 2,
                    _ => return None,
                }
            }
            b'*' | b'~' | b'>' => due = due.checked_add(said.ok()?.parse().ok()?)?,
            b'%' => due = due.checked_add(said.ok()?.parse::<u64>().ok()?.checked_mul(2)?)?,
            _ => return None,
        }
    }
    Some(end)
}
