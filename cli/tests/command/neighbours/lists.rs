//! What lists and outputs are: URLs in several spellings, outputs that are moved away under a run.

use std::fs;

use super::model::text;
use super::round::{OUT, Round};
use super::runs::{Conditions, start};

impl Round {
    /// The output is moved away, removed or replaced under a run: the run says so, and loses nothing.
    pub fn moved_output(&mut self) -> Result<(), String> {
        if self.output.is_none() {
            return Ok(());
        }
        self.daily()?;
        let list = self.list();
        let half = list.len() / 2;
        let args = self.dedup(&[]);
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        self.scenes
            .push(format!("the output is moved under {}", args.join(" ")));
        let mut dedup = start(&self.lab, &args, &Conditions::default());
        dedup.feed(&text(&list[..half]));
        self.await_open(&mut dedup, OUT, true)?;
        fs::rename(self.lab.path(OUT), self.lab.path("moved")).unwrap();
        let is_replaced = self.random.bool();
        if is_replaced {
            self.lab.write(OUT, &text(&list[..1]));
        }
        dedup.feed(&text(&list[half..]));
        let ended = dedup.end();
        // Put back, as the message says.
        fs::rename(self.lab.path("moved"), self.lab.path(OUT)).unwrap();
        // The run may have opened the file, and not yet looked whether it still has its name.
        ended.refused(&[
            "was removed, renamed or replaced while this run wrote to it",
            "it was replaced just now",
        ])?;
        self.judge(&list, &ended)?;
        let ended = self.run(&list, &Conditions::default(), &[])?;
        match ended.well() {
            true => Ok(()),
            false => Err("after an output was put back, a run was to end well".into()),
        }
    }

    /// URLs in two spellings of one meaning: the second is not printed.
    pub fn spellings(&mut self) -> Result<(), String> {
        self.scenes.push("URLs in several spellings".into());
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for number in 0..self.random.u32(1..200) {
            let scheme = ["http", "https"][self.random.usize(..2)];
            let (mut raw, mut plain) = (Vec::new(), Vec::new());
            for _ in 0..self.random.u32(1..5) {
                let byte = self.random.u8(0xa1..=0xfe);
                raw.push(byte);
                plain.extend(format!("%{byte:02X}").into_bytes());
            }
            // What browsers make of `C:` in a path of http is a segment as any other.
            let (drive, up) = match self.random.u32(0..3) {
                0 => ("c:/../", ""),
                1 => ("x/../", ""),
                _ => ("C|/./", "C|/"),
            };
            let begin = format!("{scheme}://h{number}.org/");
            first.extend([begin.as_bytes(), drive.as_bytes(), &raw, b"\n"].concat());
            second.extend([begin.as_bytes(), up.as_bytes(), &plain, b"\n"].concat());
        }
        let args = ["dedup", "--url", "-q", "urls.ever"];
        let swapped = self.random.bool();
        let (one, other) = match swapped {
            true => (&second, &first),
            false => (&first, &second),
        };
        let ran = self.lab.run_on(&args, one);
        if ran.code != Some(0) || ran.out != *one {
            return Err(format!("URLs: {:?} {}", ran.code, ran.err));
        }
        let again = self.lab.run_on(&args, other);
        fs::remove_file(self.lab.path("urls.ever")).unwrap();
        match again.code == Some(0) && again.out.is_empty() {
            true => Ok(()),
            false => Err(format!(
                "URLs of another spelling are printed: {}",
                String::from_utf8_lossy(&again.out)
            )),
        }
    }
}
