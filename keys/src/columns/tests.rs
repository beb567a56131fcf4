use fastrand::Rng;

use super::*;

fn csv(columns: &[&str], delimiter: u8) -> Csv {
    let columns: Vec<_> = columns
        .iter()
        .map(|column| Column::parse(column).expect("a column"))
        .collect();
    Csv::new(&columns, delimiter)
}

/// Text of records with all that is special in CSV.
fn text(random: &mut Rng, length: usize) -> Vec<u8> {
    const SPECIAL: &[u8] = b"aab,;\"\"\"\n\r\n\xff ";
    (0..random.usize(..length))
        .map(|_| SPECIAL[random.usize(..SPECIAL.len())])
        .collect()
}

/// The end of each record as one call of the parser after the other finds it, byte by byte.
fn ends_of(text: &[u8], delimiter: u8) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut parser = parser(delimiter);
    let mut is_start = true;
    for (at, byte) in text.iter().enumerate() {
        if is_start && *byte == b'\n' {
            // The parser skips empty records, and here they count.
            ends.push(at);
            continue;
        }
        let (result, _, _, _) = parser.read_record(&[*byte], &mut [0; 9], &mut [0; 9]);
        is_start = result == ReadRecordResult::Record;
        if is_start {
            ends.push(at);
            parser.reset();
        }
    }
    ends
}

#[test]
fn records_end_where_the_parser_says_however_the_bytes_come() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = Rng::with_seed(seed);
    let mut inner = 0;
    for round in 0..5_000 {
        let text = text(&mut random, 60);
        let (mut cutter, mut got, mut at) = (CsvCutter::new(b','), Vec::new(), 0);
        while at < text.len() {
            let piece = &text[at..][..random.usize(1..=text.len() - at)];
            cutter.cut(piece, |end| got.push(at + end));
            at += piece.len();
        }
        let expected = ends_of(&text, b',');
        assert_eq!(got, expected, "round {round}: {}", text.escape_ascii());
        inner += text.iter().filter(|byte| **byte == b'\n').count() - expected.len();
    }
    assert!(inner > 300, "{inner} line feeds in quotes");
}

#[test]
fn columns_are_those_of_the_parser() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = Rng::with_seed(seed);
    let (mut quoted, mut missing) = (0, 0);
    for round in 0..5_000 {
        let text = text(&mut random, 40);
        let end = ends_of(&text, b';').first().copied().unwrap_or(text.len());
        let record = &text[..end];
        let number = random.usize(1..5);
        let mut csv = csv(&[&number.to_string()], b';');
        let got = csv.find(record).map(|found| found[0].to_vec());
        // All in one call, with room for everything.
        let record = record.strip_suffix(b"\r").unwrap_or(record);
        let (mut fields, mut ends) = ([0; 99], [0; 99]);
        let mut parser = parser(b';');
        let (_, _, first, some) = parser.read_record(record, &mut fields, &mut ends);
        let (_, _, _, more) = parser.read_record(&[], &mut fields[first..], &mut ends[some..]);
        let start = if number == 1 { 0 } else { ends[number - 2] };
        let expected = match number <= some + more && !record.is_empty() {
            true => Ok(fields[start..ends[number - 1]].to_vec()),
            false => Err(ColumnError::Missing {
                name: number.to_string().into(),
            }),
        };
        assert_eq!(
            got,
            expected,
            "round {round}: {number} of {}",
            record.escape_ascii()
        );
        quoted += usize::from(got.is_ok() && record.contains(&b'"'));
        missing += usize::from(got.is_err());
    }
    assert!(quoted > 300 && missing > 300, "{quoted} {missing}");
}

#[test]
fn names_are_looked_up_in_the_header() {
    let mut csv = csv(&["u,r\"l", "2"], b',');
    assert!(csv.wants_header());
    assert_eq!(csv.find(b"1,2,3"), Err(ColumnError::NoHeader));
    let name = "u,r\"l".to_owned();
    assert_eq!(
        csv.set_header(b"a,u"),
        Err(ColumnError::NotInHeader { name })
    );
    csv.set_header("\u{feff}a,b,\"u,r\"\"l\",\"u,r\"\"l\"\r".as_bytes())
        .expect("it is there");
    assert_eq!(csv.find(b"1,2,\"x\ny\",4\r"), Ok(vec![&b"x\ny"[..], b"2"]));
    assert_eq!(csv.find(b"\xef\xbb\xbf\"1\",,3"), Ok(vec![&b"3"[..], b""]));
    assert_eq!(
        csv.find(b"1,2"),
        Err(ColumnError::Missing {
            name: "u,r\"l".into()
        })
    );
    assert_eq!(
        csv.find(b""),
        Err(ColumnError::Missing {
            name: "u,r\"l".into()
        })
    );
}

#[test]
fn columns_are_named_or_numbered() {
    assert_eq!(Column::parse("12"), Ok(Column::Number(12)));
    assert_eq!(Column::parse("+1"), Ok(Column::Name("+1".to_owned())));
    assert_eq!(Column::parse(""), Err(ColumnError::Empty));
    assert_eq!(Column::parse("0"), Err(ColumnError::Number));
    assert_eq!(
        Column::parse("99999999999999999999"),
        Err(ColumnError::Number)
    );
}

#[test]
fn fields_are_those_of_awk_or_between_any_bytes() {
    let of = |line: &[u8], number, separator: &[u8]| {
        let separator = match separator {
            b"" => Separator::Blank,
            bytes => Separator::Bytes(bytes.to_vec()),
        };
        let mut found = None;
        let fields = Fields::new(&[number], separator);
        fields
            .each(line, |field| found = Some(field.to_vec()))
            .ok()?;
        found
    };
    let line = b"  a \t\xff  c";
    for (number, expected) in [
        (1, Some(&b"a"[..])),
        (2, Some(b"\xff")),
        (3, Some(b"c")),
        (4, None),
    ] {
        assert_eq!(
            of(line, number, b""),
            expected.map(<[u8]>::to_vec),
            "{number}"
        );
    }
    let line = b"::a::::b:";
    for (number, expected) in [
        (1, Some(&b""[..])),
        (2, Some(b"a")),
        (3, Some(b"")),
        (4, Some(b"b:")),
        (5, None),
    ] {
        assert_eq!(
            of(line, number, b"::"),
            expected.map(<[u8]>::to_vec),
            "{number}"
        );
    }
    assert_eq!(of(b"", 1, b""), None);
    assert_eq!(of(b"", 1, b","), Some(Vec::new()));
}

#[test]
fn a_quote_that_is_open_at_the_end_is_noticed() {
    for (text, is_open) in [
        (&b""[..], false),
        (b"a", false),
        (b"a\n", false),
        (b"a,\"b\"", false),
        (b"a,\"b\"\"\"", false),
        (b"a,b\"c", false),
        (b"a,\"b", true),
        (b"a,\"b\n", true),
        (b"a\n\"b\"\",\nc\n", true),
    ] {
        let mut cutter = CsvCutter::new(b',');
        cutter.cut(text, |_| {});
        assert_eq!(cutter.is_in_quotes(), is_open, "{}", text.escape_ascii());
    }
}

#[test]
fn a_byte_order_mark_is_one_at_the_start_alone() {
    let marked = b"\xEF\xBB\xBF\"a\nb\",c\n";
    let cut = |mut cutter: CsvCutter, step: usize| {
        let mut ends = Vec::new();
        for at in (0..marked.len()).step_by(step) {
            let piece = &marked[at..marked.len().min(at + step)];
            cutter.cut(piece, |end| ends.push(at + end));
        }
        ends
    };
    for step in 1..=marked.len() {
        assert_eq!(cut(CsvCutter::new(b','), step), [10], "{step}");
        // Anywhere else it belongs to a field, in which quotes mean nothing.
        assert_eq!(cut(CsvCutter::inside(b','), step), [5, 10], "{step}");
    }
    // Whatever came before.
    let mut cutter = CsvCutter::new(b',');
    cutter.cut(b"x,y\n", |_| {});
    let mut ends = Vec::new();
    cutter.cut(marked, |end| ends.push(end));
    assert_eq!(ends, [5, 10]);
}

#[test]
fn another_header_moves_the_columns() {
    let mut csv = csv(&["url"], b',');
    csv.set_header(b"id,url").expect("it is there");
    assert_eq!(csv.find(b"1,a"), Ok(vec![&b"a"[..]]));
    let mut other = csv.clone();
    other.set_header(b"url,id\r").expect("it is there");
    assert_eq!(other.find(b"1,a"), Ok(vec![&b"1"[..]]));
    assert_eq!(csv.find(b"1,a"), Ok(vec![&b"a"[..]]));
    let name = "url".to_owned();
    assert_eq!(
        csv.set_header(b"id"),
        Err(ColumnError::NotInHeader { name })
    );
    assert_eq!(csv.find(b"1,a"), Ok(vec![&b"a"[..]]));
}
