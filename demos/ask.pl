# perl ask.pl /run/advisor/s
use strict;
use warnings;
use IO::Socket::UNIX;

sub text { pack 'Ca*', 0xa0 | length $_[0], $_[0] }    # to 31 bytes
sub number { pack 'Cd>', 0xcb, $_[0] }
sub array { join '', chr(0x90 | @_), @_ }              # of 15 at most
sub map_of { join '', chr(0x80 | @_ / 2), @_ }         # keys and values

my $service = IO::Socket::UNIX->new($ARGV[0]) or die "$ARGV[0]: $!\n";

sub take {
    my ($bytes, $form) = @_;
    my $got = read($service, my $data, $bytes) // die "$!\n";
    die "the service has closed\n" if $got < $bytes;
    return unpack $form, $data;
}

sub value {
    my $b = take(1, 'C');
    my %texts = (0xd9 => [1, 'C'], 0xda => [2, 'n'], 0xdb => [4, 'N']);
    my %lists = (0xdc => [2, 'n'], 0xdd => [4, 'N'], 0xde => [2, 'n'], 0xdf => [4, 'N']);
    my %plain = (0xcb => [8, 'd>'], 0xcc => [1, 'C'], 0xcd => [2, 'n'], 0xce => [4, 'N'], 0xcf => [8, 'Q>']);
    return $b if $b < 0x80;
    return $b - 256 if $b >= 0xe0;
    return undef if $b == 0xc0;
    return $b & 1 if $b == 0xc2 || $b == 0xc3;
    return take(@{ $plain{$b} }) if $plain{$b};
    my $text = $b >= 0xa0 && $b < 0xc0 ? $b & 31 : $texts{$b} ? take(@{ $texts{$b} }) : undef;
    return $text ? take($text, "a$text") : '' if defined $text;
    my $items = $b < 0xa0 ? $b & 15 : take(@{ $lists{$b} });
    return { map { value(), value() } 1 .. $items } if $b < 0x90 || $b >= 0xde;
    return [map { value() } 1 .. $items];
}

my $msgid = 0;

sub ask {
    my ($method, %keys) = @_;
    my $params = map_of(map { text($_), $keys{$_} } keys %keys);
    print $service array("\x00", chr ++$msgid, text($method), array($params));
    $service->flush;
    my (undef, undef, $error, $result) = @{ value() };
    die "$error->{code}: $error->{message}\n" if $error;
    return $result;
}

printf "version %s\n", ask('hello', protocol => "\x02")->{version};
my @rows = map { array(text('blur'), number(1000), number($_), number(0.5 + 3.5 / $_)) } 1, 2, 4, 8;
printf "%d rows learned\n", ask('observe_rows', rows => array(@rows))->{accepted};
my $choice = ask('choose_cores', component => text('blur'), predictor => number(1000), cores_max => "\x08");
printf "%d cores, %.17g s\n", $choice->{cores}, $choice->{elapsed_s};
